// Takes jobs off the queue, 64 at a time; an event is done when Redis has moved its job to "completed".
import { Worker } from "bullmq";
import { decide, nowUs, record } from "./probe.mjs";

const { hostname: host, port } = new URL(process.env.REDIS_URL);
const started = new Map();
const worker = new Worker("events", async (job) => {
  started.set(job.id, nowUs());
  return decide("new", job.data);
}, { connection: { host, port: Number(port), maxRetriesPerRequest: null }, concurrency: 64 });
worker.on("completed", (job) => {
  record(job.data.sent_us, started.get(job.id));
  started.delete(job.id);
});
worker.on("error", (error) => console.error(error));
await worker.waitUntilReady();
console.log("ready");
