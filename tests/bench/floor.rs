//! The server with which the benchmark compares the CPU time of a call: hyper with a constant answer.

use std::io::Write as _;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let socket = TcpListener::bind(("127.0.0.1", 0)).await?;
    // The same log line as that of our servers.
    writeln!(
        std::io::stderr(),
        "bench-floor listens on http://{}/mcp",
        socket.local_addr()?
    )?;
    loop {
        let (stream, _) = socket.accept().await?;
        stream.set_nodelay(true)?;
        let connection = http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(connection);
    }
}

/// Answers `POST /N` with N bytes.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    static BYTES: [u8; 1 << 12] = [b'x'; 1 << 12];
    let size = request.uri().path()[1..].parse().unwrap_or(0);
    request.into_body().collect().await?;
    let body = BYTES.get(..size).unwrap_or(&BYTES);
    let mut response = Response::new(Full::new(Bytes::from_static(body)));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
