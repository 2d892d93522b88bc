# One image for each server:  docker build --build-arg SERVER=n8n-mcp-server .
# It holds the program and the root certificates, nothing else: no shell, no libraries. Tokens of git hosts
# (OPENHANDS_GIT_TOKENS) need the program git:  --build-arg BASE=alpine/git
ARG BASE=scratch
FROM rust:1.95-alpine AS build
RUN apk add --no-cache build-base ca-certificates
WORKDIR /src
COPY . .
# The toolchain of the image, not the one of rust-toolchain.toml with its extra components.
ENV RUSTUP_TOOLCHAIN=1.95.0
ARG SERVER
RUN cargo build --release --locked --package "$SERVER" \
 && cp "target/release/$SERVER" /server

FROM $BASE
ARG SERVER
# The registry of MCP finds the name of the server here, as the proof that the image belongs to it.
LABEL io.modelcontextprotocol.server.name="io.github.mcp-servers/$SERVER" \
      org.opencontainers.image.title="$SERVER" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.source="https://github.com/mcp-servers/mcp-servers"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /server /server
USER 65532:65532
ENTRYPOINT ["/server"]
