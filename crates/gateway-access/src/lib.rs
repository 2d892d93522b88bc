//! Access control of the gateway: the items that a caller may list and use, by its principal.
//!
//! * [`Roles`]: the tools, prompts and resources of each role; [`Filter`]: those that a backend publishes.
//! * [`ArgumentPatterns`]: patterns for the arguments of a call; [`CallCounts`]: limits for the number of calls.
//! * [`unambiguous()`]: refuses JSON that two servers may read differently.
//! * [`View`]: a part of the gateway with a path of its own.
//! * [`Admission`]: judges the calls of a server with them; [`Viewer`]: the caller of one of the gateway's own tools.
//!
//! Knows no backends, no configuration files and no sockets. A rule holds its line in the file, to be named in a
//! decision.

mod admission;
mod arguments;
mod filter;
mod own_tools;
mod rate;
mod roles;
mod views;

pub use self::admission::{Admission, FindOwner, Viewer};
pub use self::arguments::{ArgumentPattern, ArgumentPatterns, unambiguous};
pub use self::filter::{Filter, uri_spellings};
pub use self::own_tools::{CALL_TOOL, GUARDED_OWN_TOOL, OWN_TOOLS, SEARCH_TOOLS};
pub use self::rate::{CallCounts, Limit, Rate};
pub use self::roles::{Decision, EffectName, NO_ROLE, PrincipalLine, Right, Role, Roles, Rule};
pub use self::views::{OwnTool, View, ViewTool, WITHOUT_VIEW};
