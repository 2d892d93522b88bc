//! The ways to ask an engine: to read, to change, to follow.

use std::time::Duration;

use bollard::errors::Error;
use bytes::Bytes;
use futures_util::Stream;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::path::Path;
use super::request::{self, Body};
use super::{Engine, Failure, LIST_LIMIT, container, finish, unreadable, within};

/// Most bytes that an engine says about a change that was made.
const RECEIPT_LIMIT: usize = 4 << 20;

impl Engine {
    /// Reads the JSON at `path` as `T`, within the usual time.
    pub(crate) async fn read_json<T: DeserializeOwned>(&self, path: Path) -> Result<T, Failure> {
        self.read_json_within(self.timeout, path).await
    }

    /// Reads the JSON at `path` as `T`: what takes the engine longer than most.
    pub(crate) async fn read_json_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        path: Path,
    ) -> Result<T, Failure> {
        let read = async {
            let reply = request::get(self.client()?, path.build()?);
            let json = request::read(reply, LIST_LIMIT).await?;
            let value = serde_json::from_slice(&json).map_err(unreadable)?;
            container::parse(value).map_err(unreadable)
        };
        within(limit, read).await
    }

    /// Makes a change, and brings it to its end also when the caller gives up. The reply is what
    /// the engine says about it, `Null` where it says nothing.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: Path,
        body: Body,
    ) -> Result<Value, Failure> {
        self.change_within(self.timeout, method, path, body).await
    }

    /// Makes a change that may take up to `limit`.
    pub(crate) async fn change_within(
        &self,
        limit: Duration,
        method: Method,
        path: Path,
        body: Body,
    ) -> Result<Value, Failure> {
        let reply = request::send(self.client()?, method, path.build()?, body);
        let receipt = finish(limit, request::read(reply, RECEIPT_LIMIT)).await?;
        if receipt.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&receipt).map_err(unreadable)
    }

    /// The reply to a request, in pieces; giving it up closes the connection. The caller watches
    /// the time.
    pub(crate) fn follow(
        &self,
        method: Method,
        path: Path,
        body: Body,
    ) -> Result<impl Stream<Item = Result<Bytes, Error>> + Send + Unpin + use<>, Failure> {
        let path = path.build()?;
        Ok(request::send(self.client()?, method, path, body))
    }
}
