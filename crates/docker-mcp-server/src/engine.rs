//! Client of the Docker Engine, or of Podman's socket in its place.
//!
//! [`Address::find`] finds an engine in the way of the docker CLI; an [`Engine`] sends requests to it.
//! Errors are [`EngineError`], which code can match, or the same in words ([`Engine::explain`]).
//!
//! A caller's text cannot become another request: a [`Path`] consists of fixed words, checked names
//! ([`ContainerName`] and the others) and encoded values.
//!
//! Pulls, pushes and commands are bollard's typed calls. All other requests are our own, over the
//! same connections. One value that is missing in bollard's types (a state of a newer engine, an event
//! type of Podman, a member that version 1.52 removed) would fail a whole reply: we read only the members
//! that we use, with types that every engine can fill. And bollard buffers the line of a terminal until
//! it ends, which may never happen.

mod address;
mod client;
pub(crate) mod command;
pub(crate) mod connector;
mod error;
mod events;
pub(crate) mod local;
pub(crate) mod log;
mod model;
mod name;
pub(crate) mod registry;

pub(crate) use address::{Address, EngineOptions};
pub(crate) use client::{Counters, Engine, throttled_percent, throttling, within};
pub(crate) use connector::ByteStream;
pub(crate) use error::{EngineError, RESUME};
pub(crate) use events::{Event, EventStream, History, SHOWN_DETAILS};
pub(crate) use local::LocalFacts;
pub(crate) use model::{
    ContainerDetails, ContainerState, ContainerSummary, EndpointSettings, Health, HostConfig,
    ImageDetails, ImageSummary, MountPoint, Network, ObjectKind, Volume, exit_meaning,
    is_anonymous, ports_of_bindings, ports_of_summary,
};
pub(crate) use name::{ContainerName, ImageName, ObjectName, Path};
