//! Decisions of people: the calls that need one, and the tools whose definition has changed.
//!
//! * [`approvals`]: calls about which the caller's user is asked, or that wait for an operator.
//! * [`pins`]: holds back tools whose definition is not the one that was approved.
//!
//! Both keep their entries in the state of `gateway_store`, which commands and other gateways change, too. Knows no
//! backends and no configuration files.

pub mod approvals;
pub mod pins;
