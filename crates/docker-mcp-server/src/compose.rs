//! Compose projects: those that run, and one that the compose program has resolved.
//!
//! Running projects are found by the labels of their containers: to see them needs no compose file or program. An image
//! that compose builds has labels with its project and service, too, and every container of such an image
//! inherits them. Those that compose made also have the hash of their configuration; networks and volumes that it
//! made have the name that the compose file gives them.
//!
//! A resolved project is checked against the policy. What is checked is also what is brought up: the program gets this
//! model, not the files.

use std::collections::BTreeMap;
use std::path::Path;

use mcp_core::tool::{Bounded, ToolError};
use serde_json::{Value, json};
use upstream::redact::Redactor;

use crate::docker::Docker;
use crate::engine::{ContainerDetails, ContainerSummary, ImageName, ObjectName};
use crate::json::{items, members, members_of_mut, text, texts};
use crate::policy::{CREATED, MARK, Reach, full_name, is_created, permit_marks};

pub(crate) const PROJECT: &str = "com.docker.compose.project";
const SERVICE: &str = "com.docker.compose.service";
/// The labels that only a container has which Docker's or Podman's compose made.
const CONFIG_HASHES: [&str; 2] = [
    "com.docker.compose.config-hash",
    "io.podman.compose.config-hash",
];
/// The labels of a network or volume with its name in the compose file.
pub(crate) const NETWORK: &str = "com.docker.compose.network";
pub(crate) const VOLUME: &str = "com.docker.compose.volume";
/// The label of a container that runs a single command.
const ONE_OFF: &str = "com.docker.compose.oneoff";
/// The label with the services that a container depends on, and the conditions.
pub(crate) const DEPENDS_ON: &str = "com.docker.compose.depends_on";
/// The labels with the directory and the compose files of the project.
pub(crate) const DIRECTORY: &str = "com.docker.compose.project.working_dir";
pub(crate) const FILES: &str = "com.docker.compose.project.config_files";

/// The project of a container with these labels; `None` if compose did not make it.
pub(crate) fn project_of(labels: &BTreeMap<String, String>) -> Option<&String> {
    let is_made = CONFIG_HASHES
        .iter()
        .any(|label| labels.contains_key(*label));
    labels.get(PROJECT).filter(|_| is_made)
}

/// The service of a container with these labels; `None` if compose did not make it.
pub(crate) fn service_name(labels: &BTreeMap<String, String>) -> Option<&String> {
    project_of(labels).and(labels.get(SERVICE))
}

/// The visible containers of all projects, by project; within a project by service and name.
pub(crate) async fn projects(
    docker: &Docker,
) -> Result<BTreeMap<String, Vec<ContainerSummary>>, ToolError> {
    let mut projects: BTreeMap<String, Vec<ContainerSummary>> = BTreeMap::new();
    for container in docker.containers(true).await? {
        if let Some(project) = project_of(&container.labels) {
            projects.entry(project.clone()).or_default().push(container);
        }
    }
    let key = |container: &ContainerSummary| {
        let name = container.display_name();
        (service(container).to_owned(), name.to_owned())
    };
    for containers in projects.values_mut() {
        containers.sort_by_cached_key(key);
    }
    Ok(projects)
}

/// The containers of a project that may be changed, with those that run a single command.
/// Errors when it has one that must not be changed, a hidden one included.
pub(crate) async fn mutable(
    docker: &Docker,
    project: &str,
) -> Result<Vec<ContainerDetails>, ToolError> {
    let mut containers = Vec::new();
    for container in docker.engine.containers(true).await? {
        if project_of(&container.labels).is_some_and(|name| name == project) {
            containers.push(docker.mutable_container(&container.id).await?);
        }
    }
    Ok(containers)
}

/// Whether what a project creates gets the mark of this server: all that it has by now has it. One that does not exist
/// gets it only if the mark decides what may be changed: compose takes a label for a change of the project, so that a
/// person's next `docker compose up` replaces the containers.
/// Errors when it has a container that must not be changed, a hidden one included.
pub(crate) async fn is_own(docker: &Docker, project: &str) -> Result<bool, ToolError> {
    let containers = mutable(docker, project).await?;
    let is_own = |at: &ContainerDetails| is_created(&at.config.labels);
    Ok(match containers.is_empty() {
        true => docker.policy.only_created,
        false => containers.iter().all(is_own),
    })
}

/// The visible containers of one project.
/// Errors when it has no visible container; names the projects that exist.
pub(crate) async fn project(
    docker: &Docker,
    project: &ObjectName,
) -> Result<Vec<ContainerSummary>, ToolError> {
    let mut projects = projects(docker).await?;
    projects.remove(project.as_str()).ok_or_else(|| {
        let known = known_projects(docker, projects.keys());
        ToolError::not_found(format!("There is no compose project `{project}`. {known}"))
    })
}

/// The visible containers of one project, or of one of its services, without those of single commands.
/// Errors when it has no such container; names the services that exist.
pub(crate) async fn service_of(
    docker: &Docker,
    name: &ObjectName,
    wanted: Option<&str>,
) -> Result<Vec<ContainerSummary>, ToolError> {
    let mut containers = project(docker, name).await?;
    containers.retain(|at| !is_one_off(&at.labels));
    let known: Vec<&str> = containers.iter().map(service).collect();
    let known = docker.redactor().text(&known.join(", "));
    containers.retain(|at| wanted.is_none_or(|wanted| service(at) == wanted));
    if containers.is_empty() {
        return Err(ToolError::not_found(format!(
            "`{name}` has no such service. It has: {known}."
        )));
    }
    Ok(containers)
}

/// A sentence that names the first of these projects.
pub(crate) fn known_projects<'a>(
    docker: &Docker,
    names: impl Iterator<Item = &'a String>,
) -> String {
    let redactor = docker.redactor();
    let known: Vec<String> = names.take(10).map(|name| redactor.text(name)).collect();
    match known.as_slice() {
        [] => "There are none.".to_owned(),
        known => format!("There are: {}.", known.join(", ")),
    }
}

/// Whether a container with these labels runs a single command: `docker compose run` made it, and `docker compose down`
/// leaves it.
pub(crate) fn is_one_off(labels: &BTreeMap<String, String>) -> bool {
    labels.get(ONE_OFF).is_some_and(|value| value == "True")
}

/// The compose service that a container belongs to; empty if none.
pub(crate) fn service(container: &ContainerSummary) -> &str {
    service_name(&container.labels).map_or("", String::as_str)
}

/// Members of a service that stay inside of its container, or only concern compose.
const CONTAINED: &str = "attach cap_drop command container_name cpu_count cpu_percent cpu_period \
    cpu_quota cpu_shares cpus cpuset depends_on deploy develop dns dns_opt dns_search domainname \
    entrypoint environment expose extra_hosts group_add healthcheck hostname image init labels \
    links mac_address mem_limit mem_reservation mem_swappiness memswap_limit networks pids_limit \
    platform ports profiles pull_policy read_only restart scale shm_size stdin_open stop_grace_period \
    stop_signal storage_opt sysctls tmpfs tty ulimits user working_dir";
/// Members of a service that are checked by their values.
const CHECKED: &str = "build cap_add cgroup configs ipc logging network_mode pid privileged secrets \
    security_opt userns_mode uts volumes";
/// Members of a build that stay inside of it, or are checked by their values.
const BUILD: &str = "additional_contexts args context dockerfile dockerfile_inline extra_hosts labels \
    no_cache platforms pull shm_size tags target";
/// Members of a project, of a network, of its driver's options, of a range of it, of its use by a
/// service, of a volume.
const PROJECT_MEMBERS: &str = "configs name networks secrets services version volumes";
const NETWORK_MEMBERS: &str = "attachable driver driver_opts enable_ipv4 enable_ipv6 external internal ipam \
    labels name";
const NETWORK_OPTIONS: &str = "com.docker.network.bridge.enable_icc \
    com.docker.network.bridge.enable_ip_masquerade com.docker.network.driver.mtu";
const IPAM: &str = "aux_addresses gateway ip_range subnet";
const ENDPOINT: &str =
    "aliases gw_priority ipv4_address ipv6_address link_local_ips mac_address priority";
const VOLUME_MEMBERS: &str = "driver driver_opts external labels name";
/// Most containers of one service.
const MAX_COPIES: u64 = 100;

pub(crate) struct ComposeModel(Value);

/// Further work when a project is brought up.
#[derive(Default)]
pub(crate) struct UpOptions {
    /// Images are built, and pulled, also if they exist.
    pub(crate) build: bool,
    pub(crate) pull: bool,
    /// Containers of a service.
    pub(crate) scale: BTreeMap<String, Bounded<0, 100>>,
}

impl ComposeModel {
    /// Parses the output of `compose config --format json`.
    pub(crate) fn parse(json: &str) -> Result<Self, ToolError> {
        let model: Value = serde_json::from_str(json).map_err(|error| {
            ToolError::upstream("The model of the compose program cannot be read.").caused_by(error)
        })?;
        // Compose has doubled every `$`, so that it can read its own output.
        let mut model = map_texts(model, true, &|text| text.replace("$$", "$"));
        // Only the services of active profiles are in the model.
        for (_, service) in members_of_mut(&mut model, "services") {
            if let Value::Object(service) = service {
                service.remove("profiles");
            }
        }
        Ok(Self(model))
    }

    pub(crate) fn name(&self) -> Result<String, ToolError> {
        let name = text(&self.0["name"]);
        ObjectName::new(name).map_err(|_| ToolError::invalid_argument("Give a project name."))?;
        Ok(name.to_owned())
    }

    /// The visible containers of the project, but for those of single commands: of services that `are_known` to the model,
    /// or that are not.
    pub(crate) async fn containers(
        &self,
        docker: &Docker,
        are_known: bool,
    ) -> Result<Vec<ContainerSummary>, ToolError> {
        let mut found = projects(docker).await?;
        let mut own = found.remove(text(&self.0["name"])).unwrap_or_default();
        let is_known = |at: &ContainerSummary| !self.0["services"][service(at)].is_null();
        own.retain(|at| !is_one_off(&at.labels) && is_known(at) == are_known);
        Ok(own)
    }

    pub(crate) fn has_builds(&self) -> bool {
        members(&self.0["services"]).any(|(_, at)| !at["build"].is_null())
    }

    /// Checks every service, volume, network, secret, configuration and build. Returns the names that
    /// builds take from images which this server did not create.
    /// Errors when the policy does not allow one of them.
    pub(crate) async fn check(
        &self,
        docker: &Docker,
        options: &UpOptions,
    ) -> Result<Vec<String>, ToolError> {
        refuse_unknown(docker, &self.0, PROJECT_MEMBERS)?;
        for kind in ["services", "networks", "volumes"] {
            for (_, object) in members(&self.0[kind]) {
                permit_marks(text(&object["container_name"]), self.labels(object).keys())?;
                permit_marks("", self.labels(&object["build"]).keys())?;
            }
        }
        for kind in ["secrets", "configs"] {
            for (name, source) in members(&self.0[kind]) {
                // When the project is brought up, the variables of `.env` are not there.
                if let Some(variable) = source["environment"].as_str() {
                    let text = format!(
                        "`{name}` of the {kind} is the variable `{variable}`, which is not known when the project is \
                         brought up: use `file`."
                    );
                    return Err(ToolError::invalid_argument(text));
                }
                if let Some(file) = source["file"].as_str() {
                    docker.policy.file(Path::new(file))?;
                }
            }
        }
        for (_, network) in members(&self.0["networks"]) {
            let name = text(&network["name"]);
            let (driver, ipam) = (text(&network["driver"]), text(&network["ipam"]["driver"]));
            let is_usual = matches!(driver, "" | "bridge" | "overlay" | "none");
            if !is_usual || !matches!(ipam, "" | "default") {
                refuse_option(docker, &format!("the network driver {driver} {ipam}"))?;
            }
            refuse_unknown(docker, network, NETWORK_MEMBERS)?;
            refuse_unknown(docker, &network["ipam"], "config driver")?;
            // Others can give it a bridge of the host, or of another network.
            refuse_unknown(docker, &network["driver_opts"], NETWORK_OPTIONS)?;
            let name_of = ObjectName::new(name).map_err(invalid)?;
            docker.policy.permit(name, &self.labels(network))?;
            let mut existing = Vec::new();
            if docker.has_network(&name_of).await? {
                docker.permit_network(name).await?;
                let found = docker.network(&name_of).await?;
                // Each service gets its name there, by which others may look for one of their own.
                docker.permit_names(&found)?;
                let owner = found.labels.get(PROJECT).map(String::as_str);
                let is_external = network["external"] == true;
                if owner.is_some_and(|owner| !is_external && owner != text(&self.0["name"])) {
                    return Err(ToolError::conflict(format!(
                        "The network `{name}` belongs to the project `{}`, and would be replaced: say \
                         `external: true` to use it.",
                        owner.unwrap_or_default()
                    )));
                }
                existing = found.ipam.config;
            }
            for range in items(&network["ipam"]["config"]) {
                refuse_unknown(docker, range, IPAM)?;
                let subnet = range["subnet"].as_str();
                // The host has a route to a network that is there.
                let is_new = |subnet: &&str| !existing.iter().any(|range| range.subnet == *subnet);
                subnet
                    .filter(is_new)
                    .map_or(Ok(()), |it| docker.permit_subnet(it))?;
            }
        }
        for (_, volume) in members(&self.0["volumes"]) {
            let driver = text(&volume["driver"]);
            if !matches!(driver, "" | "local") {
                refuse_option(docker, &format!("the volume driver {driver}"))?;
            }
            refuse_unknown(docker, volume, VOLUME_MEMBERS)?;
            refuse_unknown(docker, &volume["driver_opts"], "")?;
            docker
                .policy
                .permit(text(&volume["name"]), &self.labels(volume))?;
        }
        let mut taken = Vec::new();
        for (name, service) in members(&self.0["services"]) {
            let checked = self.check_service(docker, name, service, options).await;
            taken.extend(checked.map_err(|error| {
                let text = format!(
                    "The service `{name}` cannot be brought up. {}",
                    error.message()
                );
                ToolError::new(error.kind(), text)
            })?);
        }
        Ok(taken)
    }

    async fn check_service(
        &self,
        docker: &Docker,
        name: &str,
        service: &Value,
        options: &UpOptions,
    ) -> Result<Vec<String>, ToolError> {
        let known = format!("{CONTAINED} {CHECKED}");
        refuse_unknown(docker, service, &known)?;
        refuse_unknown(
            docker,
            &service["deploy"]["resources"]["reservations"],
            "cpus memory pids",
        )?;
        for (_, endpoint) in members(&service["networks"]) {
            refuse_unknown(docker, endpoint, ENDPOINT)?;
        }
        let default = default_name(&self.0, name);
        let image = service["image"].as_str().unwrap_or(&default);
        let mut body = self.body(service, image);
        body["Labels"][SERVICE] = name.into();
        let asked = options.scale.get(name).map(|copies| copies.get().into());
        let copies = asked.or_else(|| service["scale"].as_u64());
        let copies = copies.or_else(|| service["deploy"]["replicas"].as_u64());
        let copies = copies.unwrap_or(1).max(1);
        if copies > MAX_COPIES {
            let text = format!("It would have {copies} containers; at most {MAX_COPIES}.");
            return Err(ToolError::invalid_argument(text));
        }
        for copy in 1..=copies {
            let default = format!("{default}-{copy}");
            let container = service["container_name"].as_str().unwrap_or(&default);
            docker.permit_container(container, &body).await?;
        }
        let build = &service["build"];
        let policy = text(&service["pull_policy"]);
        let pulls = !matches!(
            policy,
            "" | "missing" | "if_not_present" | "never" | "build"
        );
        if options.pull || pulls {
            let name = ImageName::new(image).map_err(invalid)?;
            if let Some(old) = docker.try_image(&name).await? {
                docker.policy.permit_pull(image, old.is_built())?;
            }
        }
        let mut taken = Vec::new();
        if build.is_null() {
            return Ok(taken);
        }
        self.check_build(docker, build)?;
        let builds = options.build || policy == "build";
        let image_name = ImageName::new(image).map_err(invalid)?;
        if builds || docker.try_image(&image_name).await?.is_none() {
            docker.permit_build().await?;
        }
        for tag in texts(&build["tags"]).chain([image]) {
            let tag = ImageName::new(tag).map_err(invalid)?;
            if let Some(old) = docker.try_image(&tag).await?
                && (builds || tag.as_str() != image)
            {
                docker.policy.permit_change(tag.as_str(), old.is_built())?;
                taken.extend((!old.is_built()).then(|| tag.to_string()));
            }
        }
        Ok(taken)
    }

    /// The request that compose will send to the engine, as far as it reaches out of the container.
    fn body(&self, service: &Value, image: &str) -> Value {
        // The namespaces of other services of the project, and its networks, are checked as such.
        let mode = |member: &str| {
            let mode = service[member].as_str();
            mode.filter(|mode| !mode.starts_with("service:"))
        };
        let mounts = items(&service["volumes"]).map(|mount| {
            let source = text(&mount["source"]);
            let volume = &self.0["volumes"][source]["name"];
            json!({"Type": mount["type"], "ReadOnly": mount["read_only"],
                "Source": volume.as_str().unwrap_or(source)})
        });
        // Compose mounts their files.
        let mounted = ["secrets", "configs"].into_iter().flat_map(|kind| {
            let uses = items(&service[kind]);
            uses.map(move |used| &self.0[kind][text(&used["source"])]["file"])
        });
        let mounted = mounted.filter(|file| !file.is_null());
        let mounted = mounted.map(|file| json!({"Type": "bind", "ReadOnly": true, "Source": file}));
        let logging = &service["logging"];
        let log = match logging.is_null() {
            true => Value::Null,
            false => json!({"Type": logging["driver"], "Config": logging["options"]}),
        };
        let host = json!({
            "Privileged": service["privileged"],
            "CapAdd": service["cap_add"],
            "SecurityOpt": service["security_opt"],
            "NetworkMode": mode("network_mode").unwrap_or("none"),
            "PidMode": mode("pid"),
            "IpcMode": mode("ipc"),
            "UTSMode": mode("uts"),
            "UsernsMode": mode("userns_mode"),
            "CgroupnsMode": service["cgroup"],
            "LogConfig": log,
            "Mounts": mounts.chain(mounted).collect::<Value>(),
        });
        json!({"Image": image, "Labels": self.labels(service), "HostConfig": host})
    }

    fn check_build(&self, docker: &Docker, build: &Value) -> Result<(), ToolError> {
        refuse_unknown(docker, build, BUILD)?;
        let context = docker.policy.directory(text(&build["context"]))?;
        for (_, context) in members(&build["additional_contexts"]) {
            docker.policy.directory(text(context))?;
        }
        let dockerfile = build["dockerfile"].as_str().unwrap_or("Dockerfile");
        docker.policy.file(&context.join(dockerfile))
    }

    /// Marks images that are built as this server's, and all else that is created if it `is_own`.
    fn mark(&self, model: &mut Value, is_own: bool) {
        for kind in ["services", "networks", "volumes"] {
            let objects = members_of_mut(model, kind);
            for (name, object) in objects.filter(|(_, object)| object["external"] != true) {
                if object.is_null() {
                    *object = json!({});
                }
                if is_own {
                    object["labels"][CREATED] = MARK.into();
                }
                if !object["build"].is_null() {
                    let default = default_name(&self.0, name);
                    let image = full_name(object["image"].as_str().unwrap_or(&default));
                    object["build"]["labels"][CREATED] = image.into();
                }
            }
        }
    }

    /// As the text of a compose file, in which no variable is replaced; what is created is marked as this server's
    /// if it `is_own`. A `dry` one has an empty file in place of the text of a configuration.
    pub(crate) fn to_text(&self, is_own: bool, dry: bool) -> String {
        let mut model = self.0.clone();
        let configs = members_of_mut(&mut model, "configs").map(|(_, config)| config);
        for config in configs.filter(|config| dry && !config["content"].is_null()) {
            *config = json!({"name": config["name"], "file": "/dev/null"});
        }
        self.mark(&mut model, is_own);
        map_texts(model, false, &|text| text.replace('$', "$$")).to_string()
    }

    /// A redactor for texts about it: what is hidden at its name may be a part of another text.
    pub(crate) fn redactor(&self, docker: &Docker) -> Redactor {
        docker.redactor_with(settings(&self.0))
    }

    /// To be shown: without its secrets.
    pub(crate) fn shown(&self, redactor: &Redactor) -> Value {
        let mut shown = self.0.clone();
        for (_, service) in members_of_mut(&mut shown, "services") {
            for path in ["/command", "/entrypoint", "/healthcheck/test"] {
                if let Some(words) = service.pointer_mut(path)
                    && let Some(list) = words.as_array()
                {
                    // A secret may be the word after its option.
                    *words = redactor.command(list.iter().map(text)).into();
                }
            }
        }
        redactor.json(&mut shown);
        map_texts(shown, false, &|text| redactor.text(&text))
    }

    fn labels(&self, object: &Value) -> BTreeMap<String, String> {
        let labels = members(&object["labels"]);
        let project = (PROJECT.to_owned(), text(&self.0["name"]).to_owned());
        labels
            .map(|(name, value)| (name.clone(), text(value).to_owned()))
            .chain([project])
            .collect()
    }
}

/// The name of the image of a service that names none, and the beginning of those of its containers.
fn default_name(model: &Value, service: &str) -> String {
    format!("{}-{service}", text(&model["name"]))
}

/// The names and the values of all texts in `value`.
fn settings(value: &Value) -> Vec<(&str, &str)> {
    let named = members(value).filter_map(|(name, value)| Some((&**name, value.as_str()?)));
    let inner = members(value).map(|(_, value)| value).chain(items(value));
    named.chain(inner.flat_map(settings)).collect()
}

/// `value` with every text changed, and every key if `keys`.
fn map_texts(value: Value, keys: bool, change: &impl Fn(String) -> String) -> Value {
    match value {
        Value::String(text) => change(text).into(),
        Value::Array(items) => {
            let items = items.into_iter();
            items.map(|item| map_texts(item, keys, change)).collect()
        }
        Value::Object(members) => {
            let key = |name| if keys { change(name) } else { name };
            let members = members.into_iter();
            members
                .map(|(name, value)| (key(name), map_texts(value, keys, change)))
                .collect()
        }
        value => value,
    }
}

/// Refuses the first member that is set and not in the list of known ones.
fn refuse_unknown(docker: &Docker, object: &Value, known: &str) -> Result<(), ToolError> {
    let is_known =
        |name: &str| name.starts_with("x-") || known.split_whitespace().any(|it| it == name);
    let mut set = members(object).filter(|(_, value)| !value.is_null());
    match set.find(|(name, _)| !is_known(name)) {
        Some((name, _)) => refuse_option(docker, &format!("the option {name}")),
        None => Ok(()),
    }
}

/// Refuses an option that reaches the host, unless the policy allows everything.
fn refuse_option(docker: &Docker, option: &str) -> Result<(), ToolError> {
    docker
        .policy
        .permit_create(&Reach::Other(option.to_owned()))
}

fn invalid(error: impl std::fmt::Display) -> ToolError {
    ToolError::forbidden(format!(
        "The compose file has a name or a value that is not valid: {error}."
    ))
}
