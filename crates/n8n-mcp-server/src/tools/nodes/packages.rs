//! Tools for community packages, which add nodes to n8n, through n8n's own API.

use std::time::Duration;

use serde::Deserializer;
use upstream::http::HttpFailure;

use crate::api::N8nFailure as _;
use crate::tools::prelude::*;

const MISSING: &str = "n8n has no such package. list_community_packages shows those that it has.";
/// Long, because npm downloads the package.
const NPM_TIMEOUT: Duration = Duration::from_secs(28);

/// A package.
// n8n writes other names.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(super) struct Package {
    #[serde(alias = "packageName")]
    name: String,
    #[serde(alias = "installedVersion")]
    version: String,
    /// Types of its nodes.
    #[serde(default, alias = "installedNodes", deserialize_with = "types")]
    nodes: Vec<String>,
    /// The version that it could be updated to.
    #[serde(alias = "updateAvailable", skip_serializing_if = "Option::is_none")]
    update: Option<String>,
}

fn types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Node {
        r#type: String,
    }
    let nodes = Vec::<Node>::deserialize(deserializer)?;
    Ok(nodes.into_iter().map(|node| node.r#type).collect())
}

/// Lists the packages of custom nodes that n8n has installed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListCommunityPackages {}

#[derive(Serialize, JsonSchema)]
pub(super) struct Packages {
    packages: Vec<Package>,
}

impl Tool for ListCommunityPackages {
    const NAME: &'static str = "list_community_packages";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Packages;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Packages, ToolError> {
        let listed = n8n.api.get(&["community-packages"], &[]).await;
        let packages = listed.map_err(|failure| refusal(failure, MISSING))?;
        Ok(Packages { packages })
    }
}

/// Installs a package of custom nodes from npm. Its code runs inside of n8n with all that n8n may
/// do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InstallCommunityPackage {
    /// For example n8n-nodes-foo.
    name: String,
    /// Default: the newest.
    version: Option<String>,
    /// The name again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for InstallCommunityPackage {
    const NAME: &'static str = "install_community_package";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Package;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Package, ToolError> {
        let name = self.name.as_str();
        check_name(name)?;
        let loss = format!("Installs {name} into n8n: its code runs with all that n8n may do.");
        call.confirm(&loss, name, self.confirm.as_deref()).await?;
        let mut body = json!({"name": name});
        if let Some(version) = self.version {
            body["version"] = version.into();
        }
        let path = ["community-packages"];
        let request = n8n.api.request(Method::POST, &path).body(&body);
        let installed = request.timeout(NPM_TIMEOUT).json().await;
        installed.map_err(|failure: HttpFailure| match failure.complaint() {
            Some(text) if text.contains("not vetted") => ToolError::forbidden(format!(
                "n8n installs only packages that the n8n company has verified, and {name} is not \
                 one. The owner can allow others (N8N_UNVERIFIED_PACKAGES_ENABLED) or install it \
                 in n8n (Settings > Community nodes)."
            )),
            _ => refusal(failure, MISSING),
        })
    }
}

/// Uninstalls a package of custom nodes; workflows that use its nodes fail from then on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UninstallCommunityPackage {
    /// From list_community_packages.
    name: String,
    /// The name again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for UninstallCommunityPackage {
    const NAME: &'static str = "uninstall_community_package";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let name = self.name.as_str();
        check_name(name)?;
        let loss = format!("Uninstalls {name} from n8n; workflows that use its nodes will fail.");
        call.confirm(&loss, name, self.confirm.as_deref()).await?;
        let request = n8n
            .api
            .request(Method::DELETE, &["community-packages", name]);
        let removed = request.timeout(NPM_TIMEOUT).json().await;
        let IgnoredAny = removed.map_err(|failure| refusal(failure, MISSING))?;
        Ok(Deleted { deleted: self.name })
    }
}

/// Rejects names that npm does not allow: the name becomes a segment of a URL's path.
fn check_name(name: &str) -> Result<(), ToolError> {
    let is_legal = |c: u8| c.is_ascii_alphanumeric() || b"@/._-".contains(&c);
    let bare = name.rsplit('/').next().unwrap_or_default();
    if name.len() <= 214 && name.bytes().all(is_legal) && bare.starts_with("n8n-nodes-") {
        return Ok(());
    }
    Err(ToolError::invalid_argument(
        "`name` is not the name of a package of nodes, such as n8n-nodes-… or @scope/n8n-nodes-….",
    ))
}
