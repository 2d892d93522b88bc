//! A git host on loopback: the real `git http-backend` behind a password, and the answers of the forges'
//! APIs for pull requests.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use uuid::Uuid;

use super::workspaces::{TestDirectory, git, repository};
use crate::harness::{FakeService, Request, Response};

/// A git host with one private repository, `acme/app`, whose branches are `trunk` and `dev`.
pub(super) struct GitHost {
    pub(super) service: FakeService,
    pub(super) place: TestDirectory,
    /// The token that it wants.
    pub(super) token: String,
    /// The answer to the next request that opens a pull request. That to one with status 0 is lost, and its body the list.
    pub(super) answer: Arc<Mutex<(u16, Value)>>,
    /// The answers that are lost.
    pub(super) lost: Arc<Mutex<Lost>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    None,
    /// Answers to pushes.
    Pushes,
    /// Answers to the next push and to all that follows.
    FromPush,
    All,
}

impl GitHost {
    /// `user` goes with the token.
    pub(super) async fn start(user: &str) -> Self {
        let place = TestDirectory::new();
        let work = place.0.join("work");
        repository(&work);
        git(&work, &["branch", "-m", "trunk"]);
        std::fs::write(work.join("g.bin"), [0, 159, 146, 150]).unwrap();
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-q", "-m", "second"]);
        git(&work, &["checkout", "-q", "-b", "dev"]);
        std::fs::write(work.join("f.txt"), "dev\n").unwrap();
        git(&work, &["commit", "-q", "-a", "-m", "third"]);
        git(&work, &["tag", "-a", "v1", "-m", "a tag"]);
        git(&work, &["checkout", "-q", "trunk"]);
        std::fs::create_dir(place.0.join("acme")).unwrap();
        git(&place.0, &["clone", "-q", "--bare", "work", "acme/app.git"]);
        let bare = place.0.join("acme/app.git");
        git(&bare, &["config", "http.receivepack", "true"]);
        let token = format!("git-canary-{}", Uuid::new_v4().simple());
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{token}")));
        let bearer = format!("Bearer {token}");
        let answer = Arc::new(Mutex::new((404, json!({}))));
        let (root, answers) = (place.0.clone(), Arc::clone(&answer));
        let lost = Arc::new(Mutex::new(Lost::None));
        let losing = Arc::clone(&lost);
        let service = FakeService::start(move |request| {
            let given = request.headers.get("authorization");
            let given = given.and_then(|value| value.to_str().ok());
            let is_api = request.target.starts_with("/api/");
            match given {
                Some(given) if is_api && given == bearer => match answers.lock().unwrap().clone() {
                    (0, _) if request.method == "POST" => Response::Cut,
                    (0, body) => Response::json(200, &body),
                    (status, body) => Response::json(status, &body),
                },
                Some(given) if !is_api && given == basic => {
                    let answer = http_backend(&root, request);
                    let is_push = request.target.ends_with("/git-receive-pack");
                    let mut lost = losing.lock().unwrap();
                    match *lost {
                        Lost::FromPush if is_push => *lost = Lost::All,
                        Lost::Pushes if is_push => {}
                        Lost::All => {}
                        _ => return answer,
                    }
                    Response::Cut
                }
                _ => Response::Http(401, "text/plain", "no".into()),
            }
        });
        Self {
            service: service.await,
            place,
            token,
            answer,
            lost,
        }
    }

    pub(super) fn bare(&self) -> PathBuf {
        self.place.0.join("acme/app.git")
    }

    pub(super) fn url(&self) -> String {
        format!("{}/acme/app.git", self.service.url)
    }

    /// The options of our server that name this host and its token. `forge` is the prefix of its URL, and
    /// `path` the part of the host for which the token is.
    pub(super) fn options(&self, forge: &str, path: &str) -> [(&'static str, &'static str); 2] {
        let file = self.place.0.join("token");
        std::fs::write(&file, &self.token).unwrap();
        let host = format!("work={forge}{}{path}", self.service.url);
        let file = format!("work={}", file.display());
        [
            ("OPENHANDS_GIT_HOSTS", host.leak()),
            ("OPENHANDS_GIT_TOKEN_FILES", file.leak()),
        ]
    }

    /// The requests to the API: method, path and query, and body.
    pub(super) fn api_requests(&self) -> Vec<(String, Value)> {
        let requests = self.service.requests().into_iter();
        let requests = requests.filter(|request| request.target.starts_with("/api/"));
        let shown = requests.map(|request| {
            let body = request.json();
            (format!("{} {}", request.method, request.target), body)
        });
        shown.collect()
    }
}

/// Runs git's CGI program for a request.
fn http_backend(root: &Path, request: &Request) -> Response {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let header = |name: &str| {
        let value = request.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    };
    let mut running = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &request.method)
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("REMOTE_USER", "tester")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It may answer before it has read all.
    let _ = running.stdin.take().unwrap().write_all(&request.body);
    let output = running.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap();
    let head = String::from_utf8_lossy(&output[..end]);
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let status = field("Status: ").map_or(200, |status| status[..3].parse().unwrap());
    // Git tells the versions of its protocol by it.
    let kind = field("Content-Type: ").unwrap_or("text/plain").to_owned();
    Response::Http(status, kind.leak(), output[end + 4..].to_vec().into())
}
