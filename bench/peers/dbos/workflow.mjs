// The workflow: decide, then one durable step.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { decide, nowUs, record } from "./probe.mjs";

export const apply = DBOS.registerWorkflow(async (event) => {
  let started;
  const next = decide("new", event);
  const result = await DBOS.runStep(async () => {
    started = nowUs();
    return event.amount + 1;
  }, { name: "action" });
  record(event.sent_us, started);
  return { ...next, result };
}, { name: "apply" });

export async function launch() {
  DBOS.setConfig({
    name: "bench", systemDatabaseUrl: process.env.POSTGRES_URL, systemDatabasePoolSize: 30, logLevel: "error",
    applicationVersion: "1", runAdminServer: false,
  });
  await DBOS.launch();
}
