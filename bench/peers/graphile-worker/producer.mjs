import { makeWorkerUtils } from "graphile-worker";
import pg from "pg";
import { serve } from "./probe.mjs";

const pgPool = new pg.Pool({ connectionString: process.env.POSTGRES_URL, max: 64 });
const jobs = await makeWorkerUtils({ pgPool });
await jobs.migrate();
await serve({
  submit: (event) => jobs.addJob("apply", event),
  submitMany: (events) => jobs.addJobs(events.map((payload) => ({ identifier: "apply", payload }))),
  close: async () => { await jobs.release(); await pgPool.end(); },
});
