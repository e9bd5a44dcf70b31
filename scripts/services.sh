# Private Postgres and Redis for the other scripts. Sourced, not run.
#
# It uses installed binaries (PATH, or Debian's versioned PostgreSQL directory), installs them with apt-get
# when it runs as root, and otherwise names the packages to install. It stops only processes that it started,
# by process id.

find_postgres() {
  local directory
  if directory=$(dirname "$(command -v postgres 2>/dev/null)" 2>/dev/null) && [ -x "$directory/initdb" ]; then
    echo "$directory"
    return
  fi
  for directory in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
    if [ -x "$directory/initdb" ] && [ -x "$directory/postgres" ]; then
      echo "$directory"
      return
    fi
  done
  return 1
}

find_redis() {
  command -v redis-server || command -v valkey-server
}

# Sets POSTGRES_BIN and REDIS_SERVER, or ends the script with an install hint.
require_services() {
  local missing=()
  find_postgres >/dev/null || missing+=(postgresql)
  find_redis >/dev/null || missing+=(redis-server)
  # The worker in examples/python is run by tests.
  command -v python3 >/dev/null || missing+=(python3)
  if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]}" >&2
    # Debian would start system-wide services: we only want the binaries.
    local policy=/usr/sbin/policy-rc.d made=""
    if [ ! -e "$policy" ]; then
      printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=yes
    fi
    apt-get update -qq >&2 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 || true
    [ -z "$made" ] || rm -f "$policy"
  fi
  if ! POSTGRES_BIN=$(find_postgres) || ! REDIS_SERVER=$(find_redis) || ! command -v python3 >/dev/null; then
    cat >&2 <<TEXT
PostgreSQL, Redis and Python 3 are needed (only their binaries; nothing has to be running). Install:
  Debian, Ubuntu:  sudo apt-get install postgresql redis-server python3
  Fedora:          sudo dnf install postgresql-server valkey python3
  macOS:           brew install postgresql@17 redis python
TEXT
    exit 1
  fi
}

# Postgres refuses to run as root, so root uses an unprivileged user.
as_postgres_user() {
  if [ "$(id -u)" != 0 ]; then
    "$@"
    return
  fi
  if command -v setpriv >/dev/null; then
    exec_as=(setpriv "--reuid=$POSTGRES_USER" "--regid=$(id -g "$POSTGRES_USER")" --clear-groups --)
  else
    exec_as=(runuser -u "$POSTGRES_USER" --)
  fi
  (cd / && exec "${exec_as[@]}" "$@")
}

free_port() {
  local port
  for _ in $(seq 100); do
    # Below the ephemeral port range, so that no client gets the port in between.
    port=$((10000 + (RANDOM * 32768 + RANDOM) % 22000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
  echo "no free port on loopback" >&2
  return 1
}

# start_postgres DIRECTORY [SETTING...]: sets POSTGRES_PID and POSTGRES_PORT.
start_postgres() {
  local directory=$1 settings=()
  shift
  for setting in "$@"; do settings+=(-c "$setting"); done
  POSTGRES_USER=$(id -un)
  if [ "$(id -u)" = 0 ]; then
    POSTGRES_USER=postgres
    id postgres >/dev/null 2>&1 || POSTGRES_USER=nobody
  fi
  mkdir -p "$directory"
  if [ "$(id -u)" = 0 ]; then chown "$POSTGRES_USER" "$directory"; fi
  if [ ! -f "$directory/data/PG_VERSION" ]; then
    as_postgres_user "$POSTGRES_BIN/initdb" -D "$directory/data" -U postgres -A trust -E UTF8 --locale=C \
      --no-sync >"$directory/initdb.log" 2>&1 || { cat "$directory/initdb.log" >&2; return 1; }
  fi
  POSTGRES_PORT=$(free_port)
  as_postgres_user "$POSTGRES_BIN/pg_ctl" -D "$directory/data" -l "$directory/data/server.log" -w -s \
    -o "-p $POSTGRES_PORT -k '' -h 127.0.0.1 ${settings[*]}" start || { cat "$directory/data/server.log" >&2; return 1; }
  POSTGRES_PID=$(head -1 "$directory/data/postmaster.pid")
}

# prepare_wal GIGABYTES: writes this much write-ahead log and makes a checkpoint, so that later writes recycle
# its segments. A new server has none: it fills and syncs a segment of 16 MB whenever one is needed, and every
# commit waits for that (50 to 100 ms on a slow disk). A server that has run for a while does not.
prepare_wal() {
  local psql=$POSTGRES_BIN/psql
  [ -x "$psql" ] || psql=$(command -v psql) || { echo "psql is missing: the write-ahead log is not prepared" >&2; return 0; }
  "$psql" -h 127.0.0.1 -p "$POSTGRES_PORT" -U postgres -qAt >/dev/null <<SQL
SELECT pg_logical_emit_message(false, 'prepare', repeat('x', 16777216)) FROM generate_series(1, $1 * 64);
CHECKPOINT;
SQL
}

stop_postgres() {
  if [ -n "${POSTGRES_PID:-}" ] && kill -INT "$POSTGRES_PID" 2>/dev/null; then
    wait_for_end "$POSTGRES_PID"
  fi
  POSTGRES_PID=""
}

# start_redis DIRECTORY: sets REDIS_PID and REDIS_PORT; also listens on DIRECTORY/redis.sock.
start_redis() {
  mkdir -p "$1"
  REDIS_PORT=$(free_port)
  "$REDIS_SERVER" --port "$REDIS_PORT" --bind 127.0.0.1 --unixsocket "$1/redis.sock" --dir "$1" --save "" \
    --appendonly yes --maxmemory-policy noeviction >"$1/redis.log" 2>&1 &
  REDIS_PID=$!
}

stop_redis() {
  if [ -n "${REDIS_PID:-}" ] && kill -TERM "$REDIS_PID" 2>/dev/null; then
    wait_for_end "$REDIS_PID"
  fi
  REDIS_PID=""
}

# Waits until a process has ended; after 30 s it is killed.
wait_for_end() {
  for _ in $(seq 300); do
    kill -0 "$1" 2>/dev/null || return 0
    # Our own children stay zombies until they are waited for.
    case "$(ps -o stat= -p "$1" 2>/dev/null)" in Z* | "") return 0 ;; esac
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
}
