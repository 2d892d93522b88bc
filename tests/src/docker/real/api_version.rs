//! The version of the engine's API in each path, with a fake engine that refuses all others, as engines do since API 1.44.

use std::sync::{Arc, Mutex};

use hyper::header::HeaderValue;

use crate::docker::prelude::*;
use crate::harness::HttpServer;

/// The newest version of the API that an engine has, and the oldest one that it accepts.
type Versions = (u32, u32);

/// An engine, which is replaced by another one when these are changed, and the versions that it was asked for.
#[derive(Clone)]
struct Engine(Arc<Mutex<(Versions, Vec<u32>)>>);

impl Engine {
    /// The status and the body of the answer to a request.
    fn answer(&self, target: &str) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let ((newest, oldest), asked) = &mut *state;
        if ["/_ping", "/version"].contains(&target) {
            let version = json!({"Version": "30.0.0", "ApiVersion": format!("1.{newest}")});
            return (200, version);
        }
        let versioned = target.strip_prefix("/v1.");
        let parts = versioned.and_then(|rest| rest.split_once('/'));
        let (minor, path) = parts.unwrap_or_else(|| panic!("{target} has no version"));
        let minor: u32 = minor.parse().unwrap();
        if !(*oldest..=*newest).contains(&minor) {
            return (400, json!({"message": "client version is not supported"}));
        }
        asked.push(minor);
        let path = path.split('?').next().unwrap();
        (200, body(path))
    }
}

fn body(path: &str) -> Value {
    // API 1.54 has only sums.
    let sum = |count: u64| json!({"TotalCount": count, "ActiveCount": 1, "TotalSize": count * 10, "Reclaimable": count});
    match path {
        "containers/json" | "images/json" | "networks" => json!([]),
        "volumes" => json!({"Volumes": []}),
        "containers/web/json" => json!({"Id": "ab12".repeat(16), "Name": "/web"}),
        "system/df" => {
            json!({"ImageUsage": sum(2), "ContainerUsage": sum(3), "VolumeUsage": sum(4),
            "BuildCacheUsage": sum(5)})
        }
        _ => json!({}),
    }
}

const CALLS: &str = r#"
list_containers | {"all": true}
get_container | {"container": "web"}
update_container | {"container": "web", "memory_mb": 64}
list_images | {}
list_networks | {}
list_volumes | {}
pull_image | {"image": "busybox:test"}
get_system_info | {"disk_usage": true}
"#;

/// The engine is replaced by an older one, and then by a newer one: no call notices.
#[tokio::test]
async fn requests_name_the_version_of_the_engine_which_listens_now() {
    let engine = Engine(Arc::new(Mutex::new(((54, 44), Vec::new()))));
    let fake = engine.clone();
    let service = HttpServer::start(move |request| {
        let fake = fake.clone();
        async move {
            let (status, body) = fake.answer(&request.uri().to_string());
            let mut response = HttpServer::response(status, "application/json", body.to_string());
            let newest = fake.0.lock().unwrap().0.0;
            let version = HeaderValue::try_from(format!("1.{newest}")).unwrap();
            response.headers_mut().insert("api-version", version);
            Ok(response)
        }
    })
    .await;
    let server = in_front_of(&service.url.replace("http://", "tcp://"), &[]).await;
    for (versions, expected) in [((54, 44), 51), ((41, 24), 41), ((54, 44), 51)] {
        engine.0.lock().unwrap().0 = versions;
        for (tool, arguments) in calls_of(CALLS, &[]) {
            let result = call(&server, tool, arguments).await;
            assert_eq!(result["isError"], false, "{versions:?} {tool}: {result}");
        }
        let asked = std::mem::take(&mut engine.0.lock().unwrap().1);
        let is_expected = |minor: &u32| *minor == expected;
        assert!(
            asked.len() > 8 && asked.iter().all(is_expected),
            "{asked:?}"
        );
    }
    let info = succeed(&server, "get_system_info", json!({"disk_usage": true})).await;
    assert_eq!(info["api_version"], "1.54");
    let share = |count: u64| json!({"count": count, "in_use": 1, "size_bytes": count * 10, "reclaimable_bytes": count});
    let expected = json!({"images": share(2), "containers": share(3), "volumes": share(4), "build_cache": share(5)});
    assert_eq!(info["disk"], expected);
}
