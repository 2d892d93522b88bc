//! The origin of a frame.

use std::sync::Arc;

use super::{Caller, Connection};
use crate::era::Hints;

/// The client of a frame, and what its transport says of the frame.
pub(super) struct Source<'a> {
    pub(super) hints: &'a Hints<'a>,
    pub(super) connection: Option<&'a Arc<Connection>>,
    pub(super) caller: &'a Arc<Caller>,
}
