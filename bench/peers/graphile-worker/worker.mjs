// Woken by NOTIFY, fetches jobs in batches into a local queue and completes them in batches.
import { Logger, run } from "graphile-worker";
import { decide, nowUs, record } from "./probe.mjs";

const started = new Map();
const quiet = new Logger(() => (level, message) => level === "error" && console.error(message));
const runner = await run({
  preset: {
    worker: {
      connectionString: process.env.POSTGRES_URL,
      concurrentJobs: 64,
      maxPoolSize: 20,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: quiet,
    },
  },
  taskList: {
    apply: async (event, { job }) => {
      started.set(job.id, nowUs());
      decide("new", event);
    },
  },
});
runner.events.on("job:complete", ({ job, error }) => {
  if (error) return;
  record(job.payload.sent_us, started.get(job.id));
  started.delete(job.id);
});
console.log("ready");
