// Polls the queue; the default of 1,000 ms would only measure itself.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { launch } from "./workflow.mjs";

await launch();
await DBOS.registerQueue("events", { minPollingIntervalMs: 10, onConflict: "always_update" });
console.log("ready");
