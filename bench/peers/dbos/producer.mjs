import { DBOSClient } from "@dbos-inc/dbos-sdk";
import { serve } from "./probe.mjs";

const client = await DBOSClient.create({
  systemDatabaseUrl: process.env.POSTGRES_URL, systemDatabasePoolSize: 64, applicationName: "bench",
});
const target = { queueName: "events", workflowName: "apply", appVersion: "1" };
await serve({ submit: (event) => client.enqueue(target, event), close: () => client.destroy() });
