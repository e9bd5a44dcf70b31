// Fetches batches of up to 256 jobs, woken by NOTIFY or by its shortest polling interval.
import { PgBoss } from "pg-boss";
import { decide, nowUs, record, settings } from "./probe.mjs";

const boss = new PgBoss({ connectionString: process.env.POSTGRES_URL, max: 20, useListenNotify: settings.notify });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("events", { notify: settings.notify });
const options = { batchSize: 256, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
await boss.work("events", options, async (jobs) => {
  for (const { data } of jobs) {
    const started = nowUs();
    decide("new", data);
    record(data.sent_us, started);
  }
});
console.log("ready");
