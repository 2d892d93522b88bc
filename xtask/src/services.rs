//! The services that run on this machine for our servers and their tests.

pub(crate) mod docker;
pub(crate) mod n8n;
pub(crate) mod openhands;
pub(crate) mod postgres;

use std::ffi::OsString;
use std::fmt;

use crate::instance::Instance;
use crate::layout::Layout;
use crate::process::Process;

/// Variables of the environment.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// A service that can be fetched and started here.
pub(crate) trait Service: fmt::Debug + Sync {
    /// Its name as a prefix, and that of the folder of its instances.
    fn name(&self) -> &'static str;

    /// Why it cannot be had on this machine, and what would change that.
    fn obstacle(&self, layout: &Layout) -> Option<String>;

    /// What has to be fetched before it can start, and how large that is.
    fn to_fetch(&self, _layout: &Layout) -> Option<String> {
        None
    }

    /// Fetches what is not here yet.
    fn install(&self, layout: &Layout) -> anyhow::Result<()>;

    /// Starts the installed service and returns when it can be used.
    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process>;

    /// What the tests have to know to find it.
    fn test_environment(&self, layout: &Layout, instance: &Instance) -> Environment;
}
