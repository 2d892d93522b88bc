//! `kill_container`.

use super::prelude::*;
use super::state_change::{self, StateChange};

/// Send a signal to a container's main process, at once and without a grace period.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillContainer {
    /// Name or id.
    container: ContainerName,
    /// Default KILL.
    #[serde(default)]
    signal: Signal,
    /// Its name again, if the user cannot be asked; not for HUP, USR1, USR2.
    confirm: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Signal {
    #[default]
    Kill,
    Term,
    Int,
    Quit,
    Hup,
    Usr1,
    Usr2,
}

impl Tool for KillContainer {
    const NAME: &'static str = "kill_container";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        let name = before.display_name();
        if !before.state.is_alive() {
            return Err(conflict(format!("`{name}` is not running.")));
        }
        let signal = format!("{:?}", self.signal).to_uppercase();
        if self.signal.is_fatal() {
            let loss = format!("Sends SIG{signal} to `{name}`: its unsaved data is lost.");
            docker.confirm(call, &loss, name, &self.confirm).await?;
        } else {
            docker.policy.permit_destructive()?;
        }
        let id = before.container_id()?;
        let path = Path::container(&id, "/kill").query("signal", signal);
        docker
            .post(Action::on_container("kill", name), path)
            .await?;
        state_change::since(docker, &before).await
    }
}

impl Signal {
    /// Whether it ends programs that do not handle it. Programs mostly use the others as messages.
    fn is_fatal(self) -> bool {
        matches!(self, Self::Kill | Self::Term | Self::Int | Self::Quit)
    }
}
