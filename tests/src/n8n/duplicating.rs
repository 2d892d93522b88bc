//! The project of a copy, in fakes: a real n8n has projects only with a licence.

use serde_json::json;

use super::{done, server_with_all};
use crate::harness::{FakeService, Response, assert_contains};

#[tokio::test]
async fn copy_goes_to_the_project_of_the_original_or_says_where_it_is() {
    let complaint = "request/body must NOT have additional properties";
    let refused = "not in that of the original (home)";
    let forbidden = "not in that of the original (home): this API key may not create";
    for (status, message, folders, note) in [
        (200, "", 0, ""),
        (200, "", 1, "It is in no folder"),
        (403, "Forbidden", 0, forbidden),
        (404, "Project not found", 0, refused),
        (400, complaint, 0, complaint),
    ] {
        let fake = FakeService::start(move |request| {
            let shared = json!([{"projectId": "other", "role": "workflow:editor"},
                {"projectId": "home", "role": "workflow:owner"}]);
            // A setting that n8n ignores in a write, and what it has in its place.
            let [own, kept] = ["combined", "separate"].map(|mode| json!({"binaryMode": mode}));
            let workflow = json!({"id": "w", "name": "W", "nodes": [], "connections": {}, "shared": shared,
                "settings": own});
            match (request.method.as_str(), request.target.as_str()) {
                ("GET", "/api/v1/projects/home/folders") => {
                    Response::json(200, &json!({"count": folders, "data": []}))
                }
                ("POST", _) if status != 200 && request.has("projectId") => {
                    Response::json(status, &json!({ "message": message }))
                }
                ("GET", "/api/v1/workflows/w") => Response::json(200, &workflow),
                ("POST", _) => {
                    Response::json(200, &json!({"id": "c", "name": "C", "settings": kept}))
                }
                _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
            }
        })
        .await;
        let server = server_with_all(&fake).await;
        let copy = done!(server.client().await, "duplicate_workflow", {"workflow_id": "w"});
        assert_eq!(copy["left_out"], json!(["settings: binaryMode"]));
        let requests = fake.requests();
        let mut created = requests.iter().filter(|one| one.method == "POST");
        assert_eq!(created.next().unwrap().json()["projectId"], "home");
        let again = created
            .next()
            .map(|again| again.json().get("projectId").cloned());
        assert_eq!(again, (status != 200).then_some(None));
        match note {
            "" => assert_eq!(copy.get("note"), None, "{copy}"),
            note => assert_contains(&copy["note"], note),
        }
    }
}
