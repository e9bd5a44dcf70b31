// What every Node peer shares: the clock, the record of handled events, and the client's loops.
//
// The clock is CLOCK_MONOTONIC in microseconds, the same in all processes of one machine. A worker
// appends one record per event (sent, started, done) to the file in RECORDS; it is written every
// few milliseconds, so that recording costs next to nothing.
import fs from "node:fs";
import readline from "node:readline";

export const settings = JSON.parse(process.env.SETTINGS ?? "{}");
export const nowUs = () => Number(process.hrtime.bigint() / 1000n);
export const event = (i) => ({ i, sent_us: nowUs(), kind: "paid", amount: 1234 });

// The decision that every engine takes: a guard on the state and the event, one value set.
export const decide = (state, event) =>
  state === "new" && event.kind === "paid" ? { state: "paid", amount: event.amount } : { state };

let pending = [];
export function record(sent, started, done = nowUs()) {
  pending.push(sent, started, done);
}
if (process.env.RECORDS) {
  const file = fs.openSync(process.env.RECORDS, "a");
  setInterval(() => {
    if (pending.length === 0) return;
    fs.writeSync(file, Buffer.from(Float64Array.from(pending).buffer));
    pending = [];
  }, 5);
}

// Reads commands ("single N CLIENTS", "bulk N CLIENTS SIZE", "open N RATE") and answers each with one
// line of JSON. `submit` resolves when the engine has accepted an event, `submitMany` an array.
export async function serve({ submit, submitMany, close }) {
  console.log(JSON.stringify({ ready: true }));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...numbers] = line.trim().split(" ");
    const [n, x, size] = numbers.map(Number);
    const loops = {
      single: () => closedLoop(n, x, (i) => submit(event(i))),
      bulk: () => closedLoop(Math.ceil(n / size), x, (batch) => {
        const count = Math.min(size, n - batch * size);
        return submitMany(Array.from({ length: count }, (_, k) => event(batch * size + k)));
      }),
      open: () => openLoop(n, x, (i) => submit(event(i))),
    };
    const first_us = nowUs();
    await loops[command]();
    console.log(JSON.stringify({ first_us, last_us: nowUs(), ...complaints }));
    complaints = { errors: 0 };
  }
  await close?.();
  process.exit(0);
}

let complaints = { errors: 0 };
async function attempt(act) {
  try {
    await act();
  } catch (error) {
    complaints.errors += 1;
    complaints.error ??= String(error);
  }
}

async function closedLoop(n, clients, act) {
  let next = 0;
  const client = async () => {
    while (next < n) {
      const i = next++;
      await attempt(() => act(i));
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
}

async function openLoop(n, rate, act) {
  const [began, sent] = [performance.now(), []];
  for (let i = 0; i < n; i++) {
    const wait = began + (i * 1000) / rate - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    sent.push(attempt(() => act(i)));
  }
  await Promise.all(sent);
}
