# Builds the binary, and `millstream-bench` beside it for `millstream bench`, and ships them on a small Debian.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package millstream --package millstream-bench \
    && cp target/release/millstream target/release/millstream-bench /usr/local/bin/

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --uid 10001 millstream
COPY --from=build /usr/local/bin/millstream /usr/local/bin/millstream-bench /usr/local/bin/
USER millstream
# SIGTERM drains; give it longer than the drain setting (25 s) before the container is killed.
STOPSIGNAL SIGTERM
EXPOSE 7400
ENTRYPOINT ["millstream"]
CMD ["--help"]
