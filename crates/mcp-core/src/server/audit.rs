//! The audit of requests: reports each use of a tool, a resource or a prompt when it has ended.

use core::net::IpAddr;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;

use super::ClientName;
use super::access::Denial;
use super::answer::RequestEnd;
use crate::trace::TraceContext;

/// Records who used what.
pub trait Audit: Send + Sync {
    /// Records a request that has ended. Must not block.
    fn ended(&self, request: &AuditedRequest<'_>);

    /// Records a request that was refused before it was read; `principal` is the name of its caller's, `kind` that of the
    /// error.
    fn refused(&self, principal: Option<&Arc<str>>, kind: &'static str);
}

/// A request that has ended.
#[derive(Debug)]
pub struct AuditedRequest<'a> {
    /// One of the methods of the specification or of seed 001.
    pub method: &'a str,
    /// The name or URI that the client sent, if it is readable. It may name nothing. A tool is named as the server
    /// does, whatever the view calls it.
    pub item: Option<Cow<'a, str>>,
    /// The name of the caller's principal, if it has one.
    pub principal: Option<&'a Arc<str>>,
    /// The name of the view that the caller uses; `None` for the server itself.
    pub view: Option<&'a Arc<str>>,
    /// The name that the client gives itself.
    pub client: ClientName,
    /// The address that the request came from; `None` over stdio.
    pub address: Option<IpAddr>,
    /// Its span, if it belongs to a trace.
    pub trace: Option<&'a TraceContext>,
    /// The part of the service that it concerned, as [`AuditNotes`] have it.
    pub target: Option<&'a Arc<str>>,
    /// Why the caller may not use the item, as [`AuditNotes`] have it.
    pub denial: Option<&'a Denial>,
    /// The rule that allows the item, as [`AuditNotes`] have it.
    pub permission: Option<&'a Arc<str>>,
    /// From the request to its end.
    pub took: Duration,
    /// The arguments of a call of a tool.
    pub arguments: Option<&'a RawValue>,
    /// Its parameters as JSON; empty if it has none.
    pub params: &'a str,
    /// Bytes of its result.
    pub response_bytes: usize,
    /// The end of it.
    pub end: RequestEnd,
    /// The kind of its error, as the metrics have it.
    pub kind: Option<&'static str>,
    /// The message of the error with which it was answered, or the content of a result that says that it has failed, as
    /// JSON.
    pub failure: Option<&'a str>,
}

/// Facts that the handler of a request adds to its audit, of which the first ones count.
#[derive(Debug, Default)]
pub struct AuditNotes {
    /// True if the handler writes the record itself.
    pub(super) is_taken_over: AtomicBool,
    /// The part of the service that the request concerns, such as a backend.
    pub target: OnceLock<Arc<str>>,
    /// The reason why the caller may not use what it asked for, for the operator.
    pub denial: OnceLock<Denial>,
    /// The rule that allows the caller what it asked for, for the operator.
    pub permission: OnceLock<Arc<str>>,
}

impl AuditNotes {
    /// Takes over the record: the handler writes its own, with more details.
    pub fn take_over(&self) {
        self.is_taken_over.store(true, Ordering::Relaxed);
    }
}
