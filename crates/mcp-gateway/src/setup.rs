//! Stand-in until the configuration is there.
use crate::config::{BackendKey, Filter};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Default)]
pub(crate) struct Config {
    pub(crate) backends: BTreeMap<BackendKey, Backend>,
    pub(crate) search_above: usize,
}
#[derive(Clone, PartialEq)]
pub(crate) struct Backend {
    pub(crate) argv: Vec<String>,
    pub(crate) url: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) timeout: Option<Duration>,
    pub(crate) start_timeout: Duration,
    pub(crate) disabled: bool,
}
impl Backend {
    pub(crate) fn is_child(&self) -> bool {
        self.url.is_none()
    }
}
#[derive(Clone)]
pub(crate) struct Source;
impl Source {
    pub(crate) async fn changed(&mut self) -> Result<Config, String> {
        std::future::pending().await
    }
}
