//! The services that run on this machine for our servers and their tests.

pub(crate) mod docker;
pub(crate) mod n8n;
pub(crate) mod openhands;
pub(crate) mod openhands_app;
pub(crate) mod postgres;

use std::ffi::OsString;
use std::fmt;

use crate::instance::Instance;
use crate::layout::Layout;
use crate::process::Process;

pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// A service that can be installed and started on this machine.
pub(crate) trait Service: fmt::Debug + Sync {
    /// Returns the prefix of its lines on the terminal, and the name of its instances' folder.
    fn name(&self) -> &'static str;

    /// Returns the reason why it is not possible on this machine, with a remedy.
    fn obstacle(&self, layout: &Layout) -> Option<String>;

    /// Returns the downloads that its start needs, with their size.
    fn to_fetch(&self, _layout: &Layout) -> Option<String> {
        None
    }

    /// Downloads and installs missing parts.
    fn install(&self, layout: &Layout) -> anyhow::Result<()>;

    /// Starts the installed service and returns when it is ready.
    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process>;

    /// Returns the variables with which the tests find it.
    fn test_environment(&self, layout: &Layout, instance: &Instance) -> Environment;
}
