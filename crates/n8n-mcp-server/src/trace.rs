//! What the nodes of an execution did: pure, from the `data` that n8n keeps of it.

mod cause;
mod data;
mod failure;
mod items;
mod show;

pub(crate) use cause::Cause;
pub(crate) use data::{ResultData, Trace};
pub(crate) use failure::{Failed, failed};
pub(crate) use items::{Limits, shortened};
pub(crate) use show::{Detail, NodeRow, rows};
