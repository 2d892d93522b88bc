//! The program that has sent a request.

use core::net::IpAddr;
use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ClientName, Connection};
use crate::meta::Meta;

/// The program that has sent a request, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sender {
    /// The name that it gives itself.
    pub client: ClientName,
    /// The address that the request came from; `None` over stdio.
    pub address: Option<IpAddr>,
}

impl Sender {
    /// `meta` is that of the request.
    pub(super) fn new(
        meta: &Meta<'_>,
        connection: Option<&Arc<Connection>>,
        address: Option<IpAddr>,
    ) -> Self {
        #[derive(Deserialize)]
        struct Info<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
        }
        // Newer clients say it in each request.
        let info = meta.client_info.map(RawValue::get);
        let info: Option<Info<'_>> = info.and_then(|info| serde_json::from_str(info).ok());
        let negotiated = || connection?.negotiated();
        Self {
            client: match info {
                Some(info) => ClientName::new(&info.name),
                None => negotiated().map(|found| found.client).unwrap_or_default(),
            },
            address,
        }
    }
}
