import { Queue } from "bullmq";
import { serve } from "./probe.mjs";

const { hostname: host, port } = new URL(process.env.REDIS_URL);
const queue = new Queue("events", { connection: { host, port: Number(port) } });
await queue.waitUntilReady();
await serve({
  submit: (event) => queue.add("apply", event),
  submitMany: (events) => queue.addBulk(events.map((data) => ({ name: "apply", data }))),
  close: () => queue.close(),
});
