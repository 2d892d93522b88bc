//! Where the service behind a server comes from.

use std::ffi::OsString;
use std::path::Path;

use crate::layout::Layout;
use crate::services::{Place, Service, docker, n8n, openhands};

/// The origin of a service.
#[derive(Debug)]
pub(crate) enum Source {
    /// Named in the environment; the server reads that itself.
    Configured(String),
    /// Answering at its default address.
    Found(String),
    /// To be started by us in its place, at this address.
    Local(String),
    /// Nowhere, with what to do about it.
    Missing(String),
}

impl Source {
    /// Looks in the environment, then at the default address, then at what can be started.
    pub(crate) fn find(layout: &Layout, service: Service, place: &Place, local: bool) -> Self {
        if let Some(address) = configured(service) {
            return Self::Configured(address);
        }
        let address = default_address(service);
        if answers(service, &address) {
            return Self::Found(address);
        }
        if !local {
            return Self::Missing(format!(
                "nothing answers at {address}, its default address, and --no-local was given"
            ));
        }
        match service.obstacle(layout) {
            Some(obstacle) => Self::Missing(obstacle),
            None if service == Service::Docker => Self::Local(docker::host(place)),
            None => Self::Local(place.url()),
        }
    }

    /// What the server has to know to find it: variables to set.
    pub(crate) fn environment(
        &self,
        service: Service,
        place: &Place,
    ) -> Vec<(&'static str, OsString)> {
        let Self::Local(address) = self else {
            return Vec::new();
        };
        let file = |name| place.file(name).into_os_string();
        match service {
            Service::N8n => vec![
                ("N8N_URL", address.into()),
                ("N8N_API_KEY_FILE", file(n8n::API_KEY)),
                ("N8N_MCP_TOKEN_FILE", file(n8n::MCP_TOKEN)),
            ],
            Service::OpenHands => vec![
                ("OPENHANDS_URL", address.into()),
                ("OPENHANDS_API_KEY_FILE", file(openhands::API_KEY)),
                ("OPENHANDS_WORKSPACE_ROOT", file(openhands::WORKSPACE)),
            ],
            Service::Docker => vec![("DOCKER_HOST", address.into())],
        }
    }

    /// Variables that speak of another service than this one.
    pub(crate) fn misleading(&self, service: Service) -> &'static [&'static str] {
        match (self, service) {
            (Self::Local(_), Service::N8n) => &["N8N_API_KEY", "N8N_MCP_TOKEN", "N8N_WEBHOOK_URL"],
            (Self::Local(_), Service::OpenHands) => {
                &["OPENHANDS_API_KEY", "OPENHANDS_AGENT_PROFILE"]
            }
            (Self::Local(_), Service::Docker) => &["DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"],
            _ => &[],
        }
    }

    /// The address and the origin, for the table.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Configured(address) => format!("{address} (as configured)"),
            Self::Found(address) => format!("{address} (found there)"),
            Self::Local(address) => format!("{address} (local)"),
            Self::Missing(_) => "none".to_owned(),
        }
    }

    /// What the user has still to do for it.
    pub(crate) fn advice(&self, service: Service) -> Option<String> {
        let without = |name: &str| var(name).is_none() && var(&format!("{name}_FILE")).is_none();
        match (self, service) {
            (Self::Configured(address) | Self::Found(address), Service::N8n)
                if without("N8N_API_KEY") =>
            {
                Some(format!(
                    "N8N_API_KEY must be set for the n8n at {address}; make a key there under Settings > n8n API, then start again"
                ))
            }
            (Self::Configured(address) | Self::Found(address), Service::OpenHands)
                if without("OPENHANDS_API_KEY") =>
            {
                Some(format!(
                    "OPENHANDS_API_KEY is not set; the OpenHands at {address} is used without a key"
                ))
            }
            (Self::Missing(why), _) => Some(why.clone()),
            _ => None,
        }
    }
}

fn configured(service: Service) -> Option<String> {
    var(match service {
        Service::N8n => "N8N_URL",
        Service::OpenHands => "OPENHANDS_URL",
        Service::Docker => "DOCKER_HOST",
    })
}

fn answers(service: Service, address: &str) -> bool {
    match service {
        Service::N8n => n8n::answers(address),
        Service::OpenHands => openhands::answers(address),
        Service::Docker => docker::answers(Path::new(docker::DEFAULT_SOCKET)),
    }
}

fn default_address(service: Service) -> String {
    match service {
        Service::N8n => format!("http://127.0.0.1:{}", n8n::DEFAULT_PORT),
        Service::OpenHands => format!("http://127.0.0.1:{}", openhands::DEFAULT_PORT),
        Service::Docker => format!("unix://{}", docker::DEFAULT_SOCKET),
    }
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
