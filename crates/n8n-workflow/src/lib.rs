//! Workflows, executions and nodes of [n8n](https://n8n.io), as n8n writes them in JSON. Nothing here
//! reaches n8n or any other place: text and JSON in, data and text out.
//!
//! * To read: [`Workflow`] and [`Execution`] are what n8n's API returns, [`node_type`] reads
//!   what n8n says about a type of nodes.
//! * To write: a [`draft::Draft`] is a definition that is changed by [`draft::Operation`]s and put into
//!   the form that n8n accepts.
//! * To compare: [`diff`] names what changed between two definitions.
//! * To find faults: [`check`] knows those that a reader can see, [`publish_check`] reads what n8n
//!   answers when it refuses to publish.
//! * To explain: [`trace`] reads the data that n8n saves of an execution, and finds the node that failed
//!   or lost data.
//! * To start: [`trigger`] knows the triggers of a workflow, their URLs and their parameters.
//!
//! ```
//! use n8n_workflow::{check::check, draft::Draft};
//! use serde_json::json;
//!
//! let workflow = json!({"name": "W", "nodes": [{"name": "Set", "type": "n8n-nodes-base.set"}]});
//! let draft = Draft::read(workflow.as_object().unwrap().clone())?;
//! assert!(check(&draft)[0].message.starts_with("No trigger"));
//! # Ok::<(), String>(())
//! ```

pub mod check;
pub mod connections;
pub mod diff;
pub mod draft;
mod expressions;
mod node;
pub mod node_type;
pub mod publish_check;
pub mod trace;
pub mod trigger;
mod workflow;

pub use node::{CredentialRef, Node};
pub use workflow::{Execution, Id, Name, Status, UnpublishedDraft, Workflow};
