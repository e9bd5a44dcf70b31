# Short names for the commands of CONTRIBUTING.md. Each recipe calls a script or cargo, with the same arguments.

# Arguments reach the commands as "$@", without another splitting into words.
set positional-arguments

# The list of recipes.
default:
  @just --list

# All checks before a merge.
ci:
  .ci/run

# Tests on private services: `just test`, `just test -p millstream-model`, `just test -p millstream --test e2e crashes::fleet`.
test *arguments:
  scripts/test "$@"

# The rules that a compiler does not check.
rules:
  cargo test -p millstream-testkit --test house_rules

# Rewrites both allow lists of the house rules from the present code.
rules-rewrite:
  MILLSTREAM_HOUSE_RULES=rewrite cargo test -p millstream-testkit --test house_rules

# The lints of .ci/run: every warning is an error.
lint:
  cargo clippy --workspace --all-targets --locked -- -D warnings

# Formats all code; `just fmt --check` only compares.
fmt *arguments:
  cargo fmt --all "$@"

# The documentation of all crates, private items included: `just docs --open`.
docs *arguments:
  RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --locked "$@"

# The whole engine in one process, on SQLite.
dev *arguments:
  cargo run --release -- dev "$@"

# A fleet of real processes on private services, until Ctrl-C: `just fleet 4`.
fleet workers="2":
  scripts/fleet "$1"

# Measures throughput and latency on private, durable services: `just bench --workload all --runs 5`, `just bench graph`.
bench *arguments:
  scripts/bench "$@"

# Injects faults into a private fleet and checks its history: `just torture --for 10m --seed 7`, `just torture devices`.
torture *arguments:
  scripts/torture "$@"

# Searches inputs that break a promise of a parser (needs cargo-fuzz): `just fuzz expression --for 10m`, `just fuzz all`.
fuzz *arguments:
  scripts/fuzz "$@"

# Runs seeds of the simulation: `just sim --seeds 1000`, `just sim --trace 17`.
sim *arguments:
  cargo run -p millstream-sim -- "$@"

# Gives the OpenAPI document to validators and client generators: `just openapi`, `just openapi --clients`.
openapi *arguments:
  scripts/openapi-check "$@"

# Tests the API of a running engine against its own document: `just api`, `just api fleet --examples 500`.
api *arguments:
  scripts/schemathesis "$@"
