//! Container images as files: each is an OCI layout and also what `docker load` of older engines reads, so it
//! needs no registry. An image holds the program and the root certificates, nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::archive::{Entry, date, gzip, sha256, tar};
use super::{Build, Product, elf, registry};
use crate::images::{self, CERTIFICATES};

/// The registry of MCP finds the name of the server here, as the proof that the image belongs to it.
pub(crate) const LABEL: &str = "io.modelcontextprotocol.server.name";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image that is not written yet.
pub(crate) struct Image {
    /// The name with the tag.
    pub(crate) reference: String,
    /// The processor as Go names it.
    pub(crate) architecture: &'static str,
    pub(crate) labels: Value,
    pub(crate) ports: Value,
    pub(crate) files: Vec<Entry>,
    pub(crate) epoch: u64,
}

pub(crate) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let dir = programs(products, build)?;
    let write = |product: &Product| {
        let name = product.name;
        let image = Image {
            reference: reference(product, build),
            architecture: architecture(build.arch),
            labels: labels(product, &build.version),
            ports: json!({format!("{}/tcp", product.port): {}}),
            files: files(&dir.join(name))?,
            epoch: build.epoch,
        };
        let system = format!("linux-{}", image.architecture);
        let file = dist.join(format!("{name}-{}-image-{system}.tar", build.version));
        fs::write(&file, image.archive()?)?;
        Ok(file)
    };
    products.iter().map(write).collect()
}

pub(crate) fn reference(product: &Product, build: &Build) -> String {
    format!("{}:{}", registry::image(product.name), build.version)
}

/// Returns the folder of programs that need no C library: those of the build, or the same linked again.
fn programs(products: &[Product], build: &Build) -> anyhow::Result<PathBuf> {
    let mut is_static = true;
    for product in products {
        is_static &= elf::glibc(&fs::read(build.program(product.name))?)?.is_none();
    }
    if is_static {
        return Ok(build.dir.clone());
    }
    ensure!(
        build.is_native(),
        "images need programs without a C library: build them with -C target-feature=+crt-static"
    );
    let names: Vec<_> = products.iter().map(|product| product.name).collect();
    images::static_programs(&build.layout, build.is_release, &names)
}

pub(crate) fn architecture(arch: &str) -> &'static str {
    match arch {
        "x86_64" => "amd64",
        _ => "arm64",
    }
}

fn labels(product: &Product, version: &str) -> Value {
    json!({
        LABEL: registry::mcp(product.name),
        "org.opencontainers.image.title": product.name,
        "org.opencontainers.image.description": product.summary,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": registry::LICENSE,
        "org.opencontainers.image.source": registry::REPOSITORY,
    })
}

/// Returns the files of an image with this program.
pub(crate) fn files(program: &Path) -> anyhow::Result<Vec<Entry>> {
    let mut files = vec![Entry::program("server", program)?];
    let certificates = fs::read(CERTIFICATES);
    let certificates = certificates.context("the root certificates of this machine")?;
    files.push(Entry::new(
        CERTIFICATES.trim_start_matches('/'),
        certificates,
    ));
    Ok(files)
}

impl Image {
    /// Returns the file that `docker load`, `podman load` and `skopeo` read.
    pub(crate) fn archive(&self) -> anyhow::Result<Vec<u8>> {
        let plain = tar(&self.files, self.epoch)?;
        let layer = gzip(&plain)?;
        let config = self.config(&sha256(&plain)).to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": [descriptor(LAYER, &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let (_, tag) = self.reference.rsplit_once(':').unwrap_or_default();
        let mut described = descriptor(MANIFEST, &manifest);
        described["platform"] = json!({"os": "linux", "architecture": self.architecture});
        described["annotations"] = json!({
            "io.containerd.image.name": self.reference,
            "org.opencontainers.image.ref.name": tag,
        });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]});
        let for_docker = json!([{
            "Config": blob(&config),
            "RepoTags": [self.reference],
            "Layers": [blob(&layer)],
        }]);
        let entries = [
            Entry::new("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
            Entry::new("index.json", index.to_string()),
            Entry::new("manifest.json", for_docker.to_string()),
            Entry::new(blob(&config), config),
            Entry::new(blob(&manifest), manifest),
            Entry::new(blob(&layer), layer),
        ];
        tar(&entries, self.epoch)
    }

    fn config(&self, layer: &str) -> Value {
        let created = created(self.epoch);
        json!({
            "created": created,
            "os": "linux",
            "architecture": self.architecture,
            "config": {
                "User": "65532:65532",
                "Entrypoint": ["/server"],
                "ExposedPorts": self.ports,
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
            "history": [{"created": created, "created_by": "cargo xtask"}],
        })
    }
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(bytes))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    let digest = format!("sha256:{}", sha256(bytes));
    json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
}

fn created(epoch: u64) -> String {
    let (year, month, day) = date(epoch / 86_400);
    let [hour, minute, second] = [epoch / 3600 % 24, epoch / 60 % 60, epoch % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;

    fn example() -> BTreeMap<String, Vec<u8>> {
        let image = Image {
            reference: "example.test/a/b:1.2.3".into(),
            architecture: "arm64",
            labels: json!({LABEL: "io.example/b"}),
            ports: json!({}),
            files: vec![Entry::new("server", "program").with_mode(0o755)],
            epoch: 86_399,
        };
        let bytes = image.archive().unwrap();
        assert_eq!(bytes, image.archive().unwrap());
        let mut archive = ::tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().to_str().unwrap().to_owned(), bytes)
        });
        entries.collect()
    }

    fn parsed(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn every_digest_is_that_of_a_blob() {
        let files = example();
        let find = |descriptor: &Value| {
            let digest = descriptor["digest"]
                .as_str()
                .unwrap()
                .replace("sha256:", "");
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(
                (sha256(bytes), json!(bytes.len())),
                (digest, descriptor["size"].clone())
            );
            bytes
        };
        let manifest = parsed(find(&parsed(&files["index.json"])["manifests"][0]));
        let config = parsed(find(&manifest["config"]));
        let mut layer = Vec::new();
        let gzip = find(&manifest["layers"][0]).as_slice();
        flate2::read::GzDecoder::new(gzip)
            .read_to_end(&mut layer)
            .unwrap();
        assert_eq!(
            config["rootfs"]["diff_ids"],
            json!([format!("sha256:{}", sha256(&layer))])
        );
        assert_eq!(config["config"]["Labels"][LABEL], "io.example/b");
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["created"], "1970-01-01T23:59:59Z");
    }

    #[test]
    fn older_engines_find_the_same_blobs_and_the_name() {
        let files = example();
        let image = &parsed(&files["manifest.json"])[0];
        assert_eq!(image["RepoTags"], json!(["example.test/a/b:1.2.3"]));
        for blob in [&image["Config"], &image["Layers"][0]] {
            assert!(files.contains_key(blob.as_str().unwrap()), "{image}");
        }
    }
}
