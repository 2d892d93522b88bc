//! Client of the Docker Engine, or of Podman's socket in its place.
//!
//! [`Address::find`] finds an engine in the way of the docker CLI; an [`Engine`] sends requests to it.
//! Errors are [`EngineError`], which code can match, or the same in words ([`Engine::explain`]).
//!
//! - [`command`]: programs of this machine
//! - [`exec`]: processes in containers
//! - [`log`]: the last lines of a container's log
//! - [`own_options`]: what makes a container once more
//! - [`registry`]: logins of registries
//! - [`stats`]: use of CPU, memory, network and disks
//!
//! A caller's text cannot become another request: a [`Path`] consists of fixed words, checked names
//! ([`name::Name`]) and encoded values.
//!
//! Pulls, pushes and commands are bollard's typed calls. All other requests are our own, over the
//! same connections. One value that is missing in bollard's types (a state of a newer engine, an event
//! type of Podman, a member that version 1.52 removed) would fail a whole reply: we read only the members
//! that we use, with types that every engine can fill. And bollard buffers the line of a terminal until
//! it ends, which may never happen.

mod address;
mod client;
pub(crate) mod command;
mod connector;
mod container;
mod error;
mod events;
pub(crate) mod exec;
pub(crate) mod exit_code;
mod history;
mod image;
mod local;
pub(crate) mod log;
mod name;
mod object;
mod object_kind;
pub(crate) mod own_options;
mod path;
pub(crate) mod ports;
pub(crate) mod registry;
pub(crate) mod self_container;
pub(crate) mod stats;

pub(crate) use address::{Address, AddressSettings};
pub(crate) use client::{Engine, within};
pub(crate) use container::{
    ContainerDetails, ContainerState, ContainerSummary, EndpointSettings, Health, HostConfig,
    MountPoint, is_anonymous,
};
pub(crate) use error::EngineError;
pub(crate) use events::{Event, SHOWN_DETAILS};
pub(crate) use history::History;
pub(crate) use image::TransferStream;
pub(crate) use local::LocalFacts;
pub(crate) use name::{ContainerName, ImageName, InvalidName, ObjectName};
pub(crate) use object::{ImageDetails, ImageSummary, Network, Volume};
pub(crate) use object_kind::ObjectKind;
pub(crate) use path::Path;
