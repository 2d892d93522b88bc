//! Reads the `data` that n8n saves of an execution: its nodes, their items and errors. Sends
//! nothing.

mod cause;
mod data;
mod failure;
mod items;
mod lost;
mod node_rows;

pub(crate) use cause::Cause;
pub(crate) use data::{ResultData, Trace};
pub(crate) use failure::{NodeFailure, find_failure};
pub(crate) use items::{ItemLimits, shortened};
pub(crate) use lost::{Loss, find_loss};
pub(crate) use node_rows::{NodeRow, NodeSelection, node_rows};
