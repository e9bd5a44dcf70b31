import { PgBoss } from "pg-boss";
import { serve, settings } from "./probe.mjs";

const boss = new PgBoss({ connectionString: process.env.POSTGRES_URL, max: 64, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("events", { notify: settings.notify });
await serve({
  submit: (event) => boss.send("events", event),
  submitMany: (events) => boss.insert("events", events.map((data) => ({ data }))),
  close: () => boss.stop({ graceful: false }),
});
