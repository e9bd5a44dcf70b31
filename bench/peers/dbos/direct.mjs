// Without a queue: the process that receives an event runs its workflow. Client and engine are one.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { serve } from "./probe.mjs";
import { apply, launch } from "./workflow.mjs";

await launch();
await serve({ submit: (event) => DBOS.startWorkflow(apply)(event), close: () => DBOS.shutdown() });
