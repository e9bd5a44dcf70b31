// The service with the TypeScript SDK: rust/src/bin/service.rs is the same with the Rust SDK.
import http2 from "node:http2";
import * as restate from "@restatedev/restate-sdk";
import { decide, nowUs, record, settings } from "./probe.mjs";

const execution = restate.object({
  name: "Execution",
  handlers: {
    apply: async (ctx, event) => {
      let started = nowUs();
      const current = (await ctx.get("state")) ?? "new";
      const next = decide(current, event);
      await ctx.run("action", async () => {
        started = nowUs();
        return event.amount + 1;
      });
      ctx.set("state", next.state);
      record(event.sent_us, started);
      return next;
    },
  },
});
const handler = restate.createEndpointHandler({ services: [execution] });
http2.createServer(handler).listen(settings.port, "127.0.0.1");
