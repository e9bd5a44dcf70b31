"""A stand-in for a payment service: python3 till.py PORT. It takes up to 1000, and each key once."""

import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHARGES = {}


class Till(BaseHTTPRequestHandler):
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if order["amount"] > 1000:
            return self.answer(402, {"why": "the card is declined"})
        charge = CHARGES.setdefault(self.headers["Idempotency-Key"], f"ch-{len(CHARGES) + 1}")
        self.answer(200, {"id": charge})

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Till).serve_forever()
