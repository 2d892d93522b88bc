//! The engine, as far as the policy lets a caller see and change it.
//!
//! Every object that a call names is fetched here: by `container`, `image` … to read it, by `mutable_…` to change it.
//! Both apply the rules to the object as it is. Lists that a tool reads beside it (`docker.engine`) are filtered by the
//! tool. What a call adds, such as a new name, the tool checks itself.

mod confirm;
mod new_objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp_core::server::ChangeNotifier;
use mcp_core::suggestion::nearest;
use mcp_core::tool::ToolError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Notify;
use upstream::redact::Redactor;
use upstream::time::{Timestamp, rfc3339};

pub(crate) use self::confirm::Object;
use crate::engine::command::RunningGroups;
use crate::engine::registry::Registries;
use crate::engine::{
    Address, ContainerDetails, ContainerName, ContainerSummary, Engine, EngineError, Event,
    History, ImageDetails, ImageName, ImageSummary, Network, ObjectKind, ObjectName, Path, Volume,
    is_anonymous, local, within,
};
use crate::options::DockerOptions;
use crate::policy::{Policy, excluded, is_built, is_created, not_created};

/// The service of the tools: an engine, and the policy that says what may be shown and changed.
#[derive(Clone)]
pub(crate) struct Docker {
    pub(crate) engine: Engine,
    pub(crate) policy: Arc<Policy>,
    pub(crate) registries: Registries,
    pub(crate) changes: ChangeNotifier,
    pub(crate) history: Arc<History>,
    pub(crate) programs: RunningGroups,
    /// Told when a replacement of a container may have broken off.
    pub(crate) broken_off: Arc<Notify>,
    /// The tools that this server does not offer, once it has started.
    pub(crate) not_offered: Arc<OnceLock<Vec<String>>>,
    /// Hide what looks like a secret.
    pub(crate) redact: bool,
}

impl Docker {
    /// The engine and the policy that the options name.
    /// Errors when an option could never work.
    pub(crate) fn new(options: &DockerOptions) -> anyhow::Result<Self> {
        let address = Address::find(&options.engine)?;
        Ok(Self {
            engine: Engine::new(address, options.timeout())?,
            policy: Arc::new(options.policy()),
            registries: Registries::new(options.engine.config_dir()),
            changes: ChangeNotifier::new(),
            history: Arc::default(),
            programs: RunningGroups::default(),
            broken_off: Arc::default(),
            not_offered: Arc::default(),
            redact: !options.show_secrets,
        })
    }

    /// A redactor for the texts of one answer.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.redact)
    }

    /// A redactor for what a container says: also hides the secrets of its environment, wherever they
    /// appear.
    pub(crate) fn redactor_of(&self, container: &ContainerDetails) -> Redactor {
        let env = container.config.env.iter();
        self.redactor_with(env.filter_map(|assignment| assignment.split_once('=')))
    }

    /// A redactor that also hides the secrets among these settings, wherever they appear.
    pub(crate) fn redactor_with<'a>(
        &self,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Redactor {
        // A simple word, such as `postgres`, also has other meanings.
        let is_word = |value: &str| value.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_rare = |value: &str| value.len() >= if is_word(value) { 12 } else { 6 };
        let settings = settings.into_iter().filter(|(_, value)| is_rare(value));
        self.redactor().with_secrets(settings)
    }

    /// The visible running containers, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<ContainerSummary>, ToolError> {
        Ok(self.visible(self.engine.containers(all).await?))
    }

    /// The visible ones of these containers.
    pub(crate) fn visible(&self, mut listed: Vec<ContainerSummary>) -> Vec<ContainerSummary> {
        listed.retain(|at| self.policy.permits(at.display_name(), &at.labels));
        listed
    }

    /// The details of a visible container.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn container(
        &self,
        name: &ContainerName,
    ) -> Result<ContainerDetails, ToolError> {
        let read = self.engine.try_inspect(name).await;
        let action = Action::reading(ObjectKind::Container, name.as_str());
        let details = self.explained(read, action).await?;
        let (own, labels) = (details.display_name(), &details.config.labels);
        self.policy.permit_as(name.as_str(), own, labels)?;
        Ok(details)
    }

    /// The details of a container that was visible a moment ago; `None` if it is gone.
    pub(crate) async fn container_now(
        &self,
        id: &ContainerName,
    ) -> Result<Option<ContainerDetails>, ToolError> {
        match self.engine.try_inspect(id).await {
            Ok(details) => Ok(Some(details)),
            Err(failure) if failure.is_no_such_container() => Ok(None),
            Err(failure) => Err(self.engine.explain(failure)),
        }
    }

    /// The details of a container that may be changed.
    /// Errors when it does not exist, the policy protects it, or this server runs in it.
    pub(crate) async fn mutable_container(
        &self,
        name: &ContainerName,
    ) -> Result<ContainerDetails, ToolError> {
        let details = self.container(name).await?;
        let name = details.display_name();
        if local::is_self(&details.id) {
            return Err(ToolError::forbidden(format!(
                "`{name}` is the container that this server runs in; change it from outside."
            )));
        }
        self.policy
            .permit_change(name, is_created(&details.config.labels))?;
        let only_created = self.policy.only_created;
        if only_created && self.inherits_mark(&details).await? {
            return Err(ToolError::forbidden(not_created(name)));
        }
        self.permit_volumes_of(&details, only_created).await?;
        Ok(details)
    }

    /// Whether the mark of a container may be that of another one, of which somebody has made its image. True if the
    /// image is not there any more.
    async fn inherits_mark(&self, container: &ContainerDetails) -> Result<bool, ToolError> {
        let Ok(image) = ImageName::new(&container.image) else {
            return Ok(true);
        };
        let image = self.try_image(&image).await?;
        Ok(image.is_none_or(|image| is_created(&image.config.labels)))
    }

    /// Makes a change, which itself takes up to some `seconds`.
    /// Errors describe `action`.
    pub(crate) async fn post(
        &self,
        action: Action<'_>,
        path: Path,
        body: Option<&Value>,
        seconds: u32,
    ) -> Result<Value, ToolError> {
        let duration = Duration::from_secs(seconds.into());
        let done = self.engine.try_post(path, body, duration).await;
        self.explained(done, action).await
    }

    /// Removes what is at `path`.
    /// Errors describe `action`.
    pub(crate) async fn delete(&self, action: Action<'_>, path: Path) -> Result<(), ToolError> {
        let done = self.engine.try_delete(path).await;
        self.explained(done, action).await
    }

    /// The result of a request.
    /// Errors describe `action`.
    pub(crate) async fn explained<T>(
        &self,
        done: Result<T, EngineError>,
        action: Action<'_>,
    ) -> Result<T, ToolError> {
        match done {
            Ok(done) => Ok(done),
            Err(failure) => Err(self.explain(failure, action).await),
        }
    }
}

impl ImageDetails {
    /// Whether this server has built it.
    pub(crate) fn is_built(&self) -> bool {
        let tags = self.repo_tags.iter().map(String::as_str);
        is_built(&self.config.labels, tags)
    }
}

impl ImageSummary {
    /// Whether this server has built it.
    pub(crate) fn is_built(&self) -> bool {
        is_built(&self.labels, self.tags())
    }
}

/// The name that is shown of an object which the rules hide.
pub(crate) const HIDDEN: &str = "(hidden by the rules)";

impl Docker {
    /// An image.
    /// Errors when it does not exist.
    pub(crate) async fn image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let path = Path::to("/images").id(name).then("/json");
        self.get_object(ObjectKind::Image, name, path).await
    }

    /// An image; `None` if it does not exist here.
    pub(crate) async fn try_image(
        &self,
        name: &ImageName,
    ) -> Result<Option<ImageDetails>, ToolError> {
        self.existing(Path::to("/images").id(name).then("/json"))
            .await
    }

    /// An image that may be removed.
    /// Errors when it does not exist, or the policy protects it.
    pub(crate) async fn mutable_image(&self, name: &ImageName) -> Result<ImageDetails, ToolError> {
        let details = self.image(name).await?;
        let policy = &self.policy;
        policy.permit_change(name.as_str(), details.is_built())?;
        Ok(details)
    }

    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        let mut networks = self.engine.networks().await?;
        networks.retain(|at| self.policy.permits(&at.name, &at.labels));
        networks.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        Ok(networks)
    }

    /// A visible network.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn network(&self, name: &ObjectName) -> Result<Network, ToolError> {
        let path = Path::to("/networks").id(name);
        let network: Network = self.get_object(ObjectKind::Network, name, path).await?;
        self.policy
            .permit_as(name.as_str(), &network.name, &network.labels)?;
        Ok(network)
    }

    /// A visible volume; `None` if it does not exist.
    /// Errors when the policy hides it, or would.
    pub(crate) async fn try_volume(&self, name: &ObjectName) -> Result<Option<Volume>, ToolError> {
        let found: Option<Volume> = self.existing(Path::to("/volumes").id(name)).await?;
        match &found {
            Some(volume) => self.permit_volume(volume).await?,
            None => self.policy.permit(name.as_str(), &BTreeMap::new())?,
        }
        Ok(found)
    }

    /// Refuses a volume that the policy hides. One without a name belongs to its containers.
    async fn permit_volume(&self, volume: &Volume) -> Result<(), ToolError> {
        self.policy.permit(&volume.name, &volume.labels)?;
        if is_anonymous(&volume.name) && self.policy.has_rules() {
            let users = self.volume_usage().await?;
            let mut users = users.get(&volume.name).into_iter().flatten();
            if users.any(|user| user == HIDDEN) {
                return Err(ToolError::forbidden(excluded(&volume.name)));
            }
        }
        Ok(())
    }

    /// Refuses a container that mounts a volume which a rule denies or, to change it, one which this
    /// server did not create and may therefore not write to.
    async fn permit_volumes_of(
        &self,
        container: &ContainerDetails,
        to_change: bool,
    ) -> Result<(), ToolError> {
        if !to_change && !self.policy.has_rules() {
            return Ok(());
        }
        for mount in &container.mounts {
            if mount.is_anonymous() || mount.kind != "volume" {
                continue;
            }
            let Ok(name) = ObjectName::new(&mount.name) else {
                continue;
            };
            let found: Option<Volume> = self.existing(Path::to("/volumes").id(&name)).await?;
            let labels = found.unwrap_or_default().labels;
            if self.policy.permit_use(&mount.name, &labels).is_err() {
                return Err(ToolError::forbidden(format!(
                    "`{}` mounts a volume that is not accessible through this server: its rules \
                     (--allow, --deny) exclude it.",
                    container.display_name()
                )));
            }
            if to_change && mount.writable {
                self.policy.permit_write(&mount.name, &labels)?;
            }
        }
        Ok(())
    }

    /// A visible container whose files may be read, which include those of its volumes.
    /// Errors when a rule hides it, or denies one of its volumes, or it must not be started as it is by now: the engine
    /// mounts again what it reads from.
    pub(crate) async fn readable_container(
        &self,
        name: &ContainerName,
    ) -> Result<ContainerDetails, ToolError> {
        let details = self.container(name).await?;
        self.permit_volumes_of(&details, false).await?;
        self.permit_start(&details.id).await?;
        Ok(details)
    }

    /// The details of a container to which files may be written, wherever in it.
    /// Errors as [`Docker::mutable_container`], and when it can write to a path of the host that the policy does not
    /// allow: the engine follows the links of the container, which can change after a path of it was judged.
    pub(crate) async fn writable_container(
        &self,
        name: &ContainerName,
    ) -> Result<ContainerDetails, ToolError> {
        let details = self.mutable_container(name).await?;
        // Podman also writes to what is mounted to be read only.
        let is_podman = details.host_config.runtime == "oci";
        for mount in details.mounts.iter().filter(|at| at.writable || is_podman) {
            let path = match &*mount.kind {
                "bind" => Some(mount.source.clone()),
                "volume" => self.engine.host_path_of_volume(&mount.name).await?,
                _ => None,
            };
            let (sees_host, name) = (self.engine.is_beside_us(), details.display_name());
            path.map_or(Ok(()), |path| {
                self.policy.permit_bind(&path, sees_host, name)
            })?;
        }
        Ok(details)
    }

    /// The object at `path`; `None` if there is none.
    async fn existing<T: DeserializeOwned>(&self, path: Path) -> Result<Option<T>, ToolError> {
        match self.engine.try_get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(EngineError::Refused { status: 404, .. }) => Ok(None),
            Err(failure) => Err(self.engine.explain(failure)),
        }
    }

    /// Whether there is a network of this name, also a hidden one.
    pub(crate) async fn has_network(&self, name: &ObjectName) -> Result<bool, ToolError> {
        let found = self.existing::<Network>(Path::to("/networks").id(name));
        Ok(found.await?.is_some())
    }

    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        let mut volumes = self.engine.volumes().await?;
        volumes.retain(|at| self.policy.permits(&at.name, &at.labels));
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// A visible volume.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn volume(&self, name: &ObjectName) -> Result<Volume, ToolError> {
        let path = Path::to("/volumes").id(name);
        let volume: Volume = self.get_object(ObjectKind::Volume, name, path).await?;
        self.permit_volume(&volume).await?;
        Ok(volume)
    }

    /// The names of networks and volumes that a rule denies, which a visible container may use.
    pub(crate) async fn denied_names(&self) -> Result<BTreeSet<String>, ToolError> {
        if !self.policy.has_rules() {
            return Ok(BTreeSet::new());
        }
        let networks = self.engine.networks().await?.into_iter();
        let volumes = self.engine.volumes().await?.into_iter();
        let networks = networks.map(|at| (at.name, at.labels));
        let all = networks.chain(volumes.map(|at| (at.name, at.labels)));
        let denied = all.filter(|(name, labels)| self.policy.permit_use(name, labels).is_err());
        Ok(denied.map(|(name, _)| name).collect())
    }

    /// Whether an event is visible. The attributes of a container include its labels.
    pub(crate) fn may_see_event(&self, event: &Event) -> bool {
        event.kind == "image" || self.policy.permits(event.name(), event.attributes())
    }

    /// The number of containers of each image, by its whole id; includes hidden containers.
    pub(crate) async fn image_usage(&self) -> Result<BTreeMap<String, usize>, ToolError> {
        let mut counts = BTreeMap::new();
        for container in self.engine.containers(true).await? {
            *counts.entry(container.image_id).or_default() += 1;
        }
        Ok(counts)
    }

    /// The names of the containers that mount each volume, stopped ones included; [`HIDDEN`] for those
    /// that the rules hide.
    pub(crate) async fn volume_usage(&self) -> Result<BTreeMap<String, Vec<String>>, ToolError> {
        let visible = self.visible_names().await?;
        let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for container in self.engine.containers(true).await? {
            let name = visible.get(&*container.id).map_or(HIDDEN, String::as_str);
            let volumes = container.mounts.into_iter().map(|mount| mount.name);
            for volume in volumes.filter(|volume| !volume.is_empty()) {
                users.entry(volume).or_default().push(name.to_owned());
            }
        }
        Ok(users)
    }

    /// The names and addresses of the containers in a network, also of those that do not run and could not be started
    /// without it; [`HIDDEN`] for those that the rules hide.
    pub(crate) async fn network_users(
        &self,
        network: &Network,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let visible = self.visible_names().await?;
        let stopped = self.engine.containers(true).await?.into_iter();
        let stopped = stopped.filter(|at| at.network_settings.networks.contains_key(&network.name));
        let mut users: BTreeMap<String, String> = stopped
            .map(|at| (at.id.to_string(), String::new()))
            .collect();
        let connected = network.containers.iter();
        users.extend(connected.map(|(id, user)| (id.clone(), user.ip_address.clone())));
        let name = |id: &String| visible.get(id).map_or(HIDDEN, String::as_str).to_owned();
        let users = users.into_iter();
        Ok(users.map(|(id, address)| (name(&id), address)).collect())
    }

    /// The names of the visible containers, by their ids.
    async fn visible_names(&self) -> Result<BTreeMap<String, String>, ToolError> {
        let visible = self.containers(true).await?;
        let names = visible.iter();
        let names = names.map(|at| (at.id.to_string(), at.display_name().to_owned()));
        Ok(names.collect())
    }
}

#[derive(Debug, Default)]
pub(crate) struct PastEvents {
    /// Oldest first.
    pub(crate) events: Vec<Event>,
    /// Since then all are known, with RFC 3339; of those before, some may be missing.
    pub(crate) complete_since: Option<String>,
    /// The reason why the engine's own memory is missing here.
    pub(crate) failure: Option<EngineError>,
}

impl Docker {
    /// The visible events between two times (unix seconds; until now by default), of objects of `kind`,
    /// of the container with the id `container`, with the timeout `limit` for the engine.
    pub(crate) async fn past_events(
        &self,
        (since, until): (i64, Option<i64>),
        kind: Option<&str>,
        container: Option<&str>,
        limit: Duration,
    ) -> PastEvents {
        let mut filters = json!({});
        if let Some(kind) = kind {
            filters["type"] = json!([kind]);
        }
        if let Some(container) = container {
            filters["container"] = json!([container]);
        }
        // Whole seconds would exclude the newest events, and a time to come would delay the reply.
        let now = Timestamp::now();
        let end = match until {
            Some(until) if until <= now.as_second() => until.to_string(),
            _ => format!("{}.{:09}", now.as_second(), now.subsec_nanosecond()),
        };
        let asked = within(limit, self.engine.past_events((since, &end), filters)).await;
        let (mut events, complete_since) = self.history.select(|event| {
            event.time >= since
                && until.is_none_or(|until| event.time < until)
                && kind.is_none_or(|kind| event.kind == kind)
                && container.is_none_or(|id| event.id() == id)
        });
        let failure = match asked {
            Ok(past) => {
                events.extend(past.into_iter().filter(|event| self.may_see_event(event)));
                None
            }
            Err(failure) => Some(failure),
        };
        let key = |event: &Event| (event.nanos(), event.id().to_owned(), event.action.clone());
        events.sort_by_cached_key(key);
        events.dedup_by_key(|event| key(event));
        PastEvents {
            events,
            complete_since: complete_since.map(|nanos| rfc3339(nanos / 1_000_000_000)),
            failure,
        }
    }
}

/// A change that the engine is asked to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action<'a> {
    /// An infinitive; `None` if the object is only read.
    verb: Option<&'static str>,
    /// The changed object, by the name that the caller gave.
    name: &'a str,
    /// The object that may be missing: mostly the same.
    needs: (ObjectKind, &'a str),
    /// The advice if it is not known whether the change happens.
    check: &'static str,
}

impl<'a> Action<'a> {
    pub(crate) fn new(verb: &'static str, kind: ObjectKind, name: &'a str) -> Self {
        Self {
            verb: Some(verb),
            ..Self::reading(kind, name)
        }
    }

    /// Sets the advice if it is not known whether the change happens.
    pub(crate) fn with_check(self, check: &'static str) -> Self {
        Self { check, ..self }
    }

    pub(crate) fn on_container(verb: &'static str, name: &'a str) -> Self {
        Self::new(verb, ObjectKind::Container, name)
    }

    /// No change: the object is read.
    pub(crate) fn reading(kind: ObjectKind, name: &'a str) -> Self {
        Self {
            verb: None,
            name,
            needs: (kind, name),
            check: check(kind),
        }
    }

    /// Sets the object that may be missing, if it is another one.
    pub(crate) fn with_required(self, kind: ObjectKind, name: &'a str) -> Self {
        Self {
            needs: (kind, name),
            ..self
        }
    }

    /// The tool error. A timeout or a broken connection leaves open whether a change happens.
    fn explain(&self, engine: &Engine, failure: EngineError) -> ToolError {
        let (verb, lost) = match (self.verb, failure) {
            (Some(verb), EngineError::Unconfirmed(lost)) => (verb, lost),
            (_, failure) => return engine.explain(failure),
        };
        let (name, check) = (self.name, self.check);
        let text = match &*lost {
            EngineError::Timeout(limit) => format!(
                "The Docker Engine did not confirm within {} s the request to {verb} `{name}`. {check}",
                limit.as_secs()
            ),
            _ => format!(
                "The connection broke while the Docker Engine was asked to {verb} `{name}`. {check}"
            ),
        };
        ToolError::new(lost.kind_of_lost(), text).caused_by(lost)
    }
}

/// The timeout of the names of existing objects, which are read to suggest one in an error.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(10);

impl Docker {
    /// The JSON at `path`, which describes one object, as `T`.
    async fn get_object<T: DeserializeOwned>(
        &self,
        kind: ObjectKind,
        name: &str,
        path: Path,
    ) -> Result<T, ToolError> {
        let read = self.engine.try_get(path).await;
        self.explained(read, Action::reading(kind, name)).await
    }

    /// The tool error of a request that concerns one object. If the object does not exist, it
    /// suggests similar visible ones.
    pub(crate) async fn explain(&self, failure: EngineError, action: Action<'_>) -> ToolError {
        let (kind, name) = action.needs;
        match &failure {
            EngineError::Refused {
                status: 409,
                message,
            } if kind != ObjectKind::Container => {
                ToolError::conflict(format!("The Docker Engine refuses: {message}."))
            }
            missing if kind.is_missing(missing) => {
                let known = tokio::time::timeout(SUGGESTION_TIMEOUT, self.names(kind)).await;
                let known = known.map(Result::unwrap_or_default).unwrap_or_default();
                let near = nearest(name, known.iter().map(String::as_str));
                let near = near.iter().take(3).map(|name| format!("`{name}`"));
                let suggestion = match near.collect::<Vec<_>>().join(" or ") {
                    none if none.is_empty() => hint(kind).to_owned(),
                    near => format!("Did you mean {near}?"),
                };
                let word = kind.word();
                ToolError::not_found(format!("There is no {word} `{name}`. {suggestion}"))
            }
            _ => action.explain(&self.engine, failure),
        }
    }

    /// The names of all visible objects of one kind.
    async fn names(&self, kind: ObjectKind) -> Result<Vec<String>, ToolError> {
        Ok(match kind {
            ObjectKind::Container => self.visible_names().await?.into_values().collect(),
            ObjectKind::Image => {
                let all = self.engine.images().await?;
                let names = all.iter().flat_map(ImageSummary::tags);
                names.map(str::to_owned).collect()
            }
            ObjectKind::Network => {
                let all = self.networks().await?.into_iter();
                all.map(|at| at.name).collect()
            }
            ObjectKind::Volume => {
                let all = self.volumes().await?.into_iter();
                all.map(|at| at.name).collect()
            }
        })
    }
}

/// The advice if it is not known whether a change of an object of one kind happens.
fn check(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Container => "It may still happen: check with get_container before repeating.",
        ObjectKind::Image => "It may still happen: check with list_images before repeating.",
        ObjectKind::Network => "It may still happen: check with list_networks before repeating.",
        ObjectKind::Volume => "It may still happen: check with list_volumes before repeating.",
    }
}

/// The tools that show and get objects of one kind.
fn hint(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Container => "list_containers with all: true shows which ones exist.",
        ObjectKind::Image => "list_images shows which ones exist; pull_image gets others.",
        ObjectKind::Network => "list_networks shows which ones exist.",
        ObjectKind::Volume => "list_volumes shows which ones exist.",
    }
}
