//! Requests to webhooks as the caller wants them: method, headers, query and files, in and out; and URLs that
//! require authentication.

use super::*;

/// The nodes and connections of a webhook with these methods, all of which lead to the node.
async fn live_with_methods(env: &Env, methods: &[&str], node: Value) -> TestWorkflow {
    let mut trigger = webhook("lastNode");
    trigger["parameters"]["multipleMethods"] = json!(true);
    trigger["parameters"]["httpMethod"] = json!(methods);
    let outputs = vec![json!([target(node["name"].as_str().unwrap())]); methods.len()];
    let connections = json!({"Webhook": {"main": outputs}});
    env.connected_nodes(vec![trigger, node], connections).await
}

#[tokio::test]
async fn method_headers_and_query_reach_the_workflow() {
    let Some(env) = Env::urls().await else { return };
    let seen = set("={{ JSON.stringify([$json.headers['x-tenant'], $json.query, $json.body]) }}");
    let workflow = live_with_methods(&env, &["GET", "PUT"], seen).await;
    let id = &workflow.id;
    let details = done!(env, "get_workflow", {"workflow_id": id});
    assert_eq!(details["triggers"][0]["method"], "GET, PUT", "{details}");
    let connections = json!(["Webhook -> Set", "Webhook[1] -> Set"]);
    assert_eq!(details["connections"], connections);
    for (method, query, body) in [
        ("get", json!({"n": "1", "page": "2"}), json!({})),
        ("PUT", json!({"page": "2"}), json!({"n": 1})),
    ] {
        let request = json!({"workflow_id": id, "method": method, "query": {"page": 2},
            "headers": {"X-Tenant": "a b"}, "parameters": {"n": 1}});
        let ran = run_with(&env, request).await;
        let seen: Value = serde_json::from_str(ran["output"]["result"].as_str().unwrap()).unwrap();
        assert_eq!(seen, json!(["a b", query, body]), "{ran}");
    }
    refused!(env, "run_workflow", {"workflow_id": id, "method": "POST"}, "It takes: GET, PUT.");
    for (name, value, part) in [
        ("Host", "x", "\"Host\", which this server or a proxy sets"),
        ("X-Forwarded-For", "x", "sets"),
        ("x-mcp-request-id", "x", "sets"),
        ("Content-Encoding", "gzip", "sets"),
        ("a b", "x", "no name"),
        ("a", "x\r\nb: c", "line break"),
        ("a", &"x".repeat(9_000), "9001 bytes"),
    ] {
        refused!(env, "run_workflow", {"workflow_id": id, "headers": {name: value}}, part);
    }
    let through_proxy = env.config.url.replacen("://", "://proxy:user@", 1);
    let [url, key] = env.env_without_mcp();
    let vars = [url, key, ("N8N_WEBHOOK_URL", through_proxy.as_str())];
    let session = Session::start(SERVER, &vars).await;
    let own = json!({"workflow_id": id, "headers": {"Authorization": "Bearer x"}});
    let part = "the user in the address of n8n";
    assert_refused(&session, "run_workflow", own, part).await;
    let form = env.live(vec![form()]).await;
    refused!(env, "run_workflow", {"workflow_id": form.id, "method": "GET"}, "cannot receive `method`");
}

/// The output is left out only where it is the request itself; halves of emojis are in texts that JavaScript has cut.
#[tokio::test]
async fn output_beside_the_request_is_shown() {
    let Some(env) = Env::urls().await else { return };
    let only = "The last node put out the request itself";
    for (nodes, output) in [
        (vec![webhook("responseNode"), respond()], Value::Null),
        (
            vec![
                webhook("lastNode"),
                code(
                    "return [{json: {a: $json.headers['x-mcp-request-id'].length}}, {json: $json}]",
                ),
            ],
            json!(36),
        ),
        (
            vec![
                webhook("lastNode"),
                code("return [{json: {a: '😀'.slice(1), headers: $json.headers}}]"),
            ],
            json!("\u{fffd}"),
        ),
    ] {
        let workflow = env.live(nodes).await;
        let ran = env.run(&workflow, json!({})).await;
        let first = ran["output"].get(0).unwrap_or(&ran["output"]);
        assert_eq!(first["a"], output, "{ran}");
        assert_eq!(ran.to_string().contains(only), output.is_null(), "{ran}");
    }
    let workflow = env
        .live(vec![
            webhook("lastNode"),
            code("throw new Error('bad 😀'.slice(0, 5))"),
        ])
        .await;
    let ran = env.run(&workflow, json!({})).await;
    assert_contains(&ran["error"]["message"], "bad \u{fffd}");
}

/// A browser sends the value of a hidden field; n8n drops a text that is no number.
#[tokio::test]
async fn fields_of_a_form_are_sent_as_a_browser_does() {
    let Some(env) = Env::urls().await else { return };
    let hidden = json!({"fieldType": "hiddenField", "fieldName": "source", "fieldValue": "site"});
    let fields = json!([{"fieldLabel": "n", "fieldType": "number"}, hidden]);
    let seen = set("={{ [$json.n, $json.source] }}");
    let workflow = env
        .live(vec![node_builders::form_with(&fields), seen])
        .await;
    for (given, expected) in [
        (json!({"n": 7}), json!([7, "site"])),
        (json!({"n": "7.5", "source": "own"}), json!([7.5, "own"])),
    ] {
        let ran = env.run(&workflow, given).await;
        let seen = ran["output"]["result"].to_string();
        let expected = expected.to_string();
        assert!(
            [&seen, &seen.replace('\\', "")]
                .iter()
                .any(|seen| seen.contains(expected.trim_matches(['[', ']']))),
            "{ran}"
        );
    }
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"n": "many"}});
    assert_refused(&env, "run_workflow", arguments, "must be a number").await;
}

/// The whole file of an execution, read in parts of this size.
async fn file(env: &Env, mut arguments: Value, size: u32) -> Vec<u8> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    arguments["max_bytes"] = size.into();
    let mut content = Vec::new();
    loop {
        let part = done(env, "get_execution_file", arguments.clone()).await;
        match part["base64"].as_str() {
            Some(text) => content.extend(STANDARD.decode(text).unwrap()),
            None => content.extend(part["text"].as_str().unwrap().bytes()),
        }
        match part.get("next_offset") {
            Some(next) => arguments["offset"] = next.clone(),
            None => return content,
        }
    }
}

#[tokio::test]
async fn files_reach_the_workflow_and_are_read_from_its_execution() {
    let Some(env) = Env::urls().await else { return };
    let expression = "={{ JSON.stringify([$json.body.n, $binary.image.fileName, $binary.image.mimeType, \
                      $binary.text.fileExtension]) }}";
    let workflow = env.live(vec![webhook("lastNode"), set(expression)]).await;
    // Names with blanks and other letters reach n8n as browsers send them.
    let named = json!({"workflow_id": workflow.id, "parameters": {"ä b": 8},
        "files": {"Größe 1": {"name": "g.txt", "text": "x"}}});
    let named = run_with(&env, named).await;
    let named = &env.execution(&named).await["data"]["resultData"]["runData"]["Webhook"][0]["data"]
        ["main"][0][0];
    assert_eq!(named["json"]["body"]["ä b"], "8", "{named}");
    assert_eq!(named["binary"]["Größe 1"]["fileName"], "g.txt", "{named}");
    let image = json!({"name": "a.png", "type": "image/png", "base64": "iVBORw0KGgoAAAD/2P8="});
    let text = json!({"name": "b.csv", "type": "text/csv", "text": "a;ä\npassword=hunter2-x\n"});
    let given = json!({"workflow_id": workflow.id, "parameters": {"n": 7}, "files": {"image": image, "text": text}});
    let ran = run_with(&env, given).await;
    let seen: Value = serde_json::from_str(ran["output"]["result"].as_str().unwrap()).unwrap();
    assert_eq!(seen, json!(["7", "a.png", "image/png", "csv"]), "{ran}");
    let id = &ran["execution_id"];
    // By default n8n keeps files on its disk, and its API does not return them.
    let about = json!({"execution_id": id, "node": "Webhook", "property": "image"});
    let part = "N8N_DEFAULT_BINARY_DATA_MODE";
    assert_refused(&env, "get_execution_file", about, part).await;
    let one_of = "`property` is one of: image, text";
    refused!(env, "get_execution_file", {"execution_id": id, "node": "Webhook"}, one_of);
    refused!(env, "get_execution_file", {"execution_id": id, "node": "Nope"}, "Webhook, Set");
    refused!(env, "get_execution_file", {"execution_id": id, "item": 1}, "1 items");
    refused!(env, "get_execution_file", {"execution_id": id}, "has no file");
    let get = live_with_methods(&env, &["GET"], echo()).await;
    let files = json!({"workflow_id": get.id, "files": {"f": "x"}});
    let part = "`files` cannot be sent with GET";
    assert_refused(&env, "run_workflow", files, part).await;
}

#[tokio::test]
async fn files_that_an_execution_holds_are_read_in_parts_without_secrets() {
    let Some(env) = Env::urls().await else { return };
    let files = "return [{json: {}, binary: {
        image: {data: 'iVBORw0KGgoAAAD/2P8=', mimeType: 'image/png', fileName: 'a.png'},
        csv: {data: Buffer.from('a;ä\\npassword=hunter2-x\\n').toString('base64'), mimeType: 'text/csv'},
        url: {data: '-_-_YQ', mimeType: 'text/plain'}, text: {data: 'password: hunter2-x', mimeType: 'a/b'},
    }}];";
    let workflow = env.live(vec![webhook("lastNode"), code(files)]).await;
    let ran = run_with(&env, json!({"workflow_id": workflow.id})).await;
    assert_has!(ran, {"output": {"$binary": {"url": {"mime_type": "text/plain"}}}});
    let about = |property: &str| json!({"execution_id": ran["execution_id"], "property": property});
    let image = done(&env, "get_execution_file", about("image")).await;
    assert_has!(image, {"name": "a.png", "mime_type": "image/png", "size": 14});
    let bytes = [
        0x89, 0x50, 0x4e, 0x47, 0xd, 0xa, 0x1a, 0xa, 0, 0, 0, 0xff, 0xd8, 0xff,
    ];
    assert_eq!(file(&env, about("image"), 16).await, bytes);
    let text = String::from_utf8(file(&env, about("csv"), 16).await).unwrap();
    assert_eq!(text, "a;ä\npassword=***\n");
    let text = about("text");
    let error = assert_refused(&env, "get_execution_file", text, "not base64").await;
    assert_lacks(&error, "hunter2");
    assert_eq!(file(&env, about("url"), 16).await, [0xfb, 0xff, 0xbf, 0x61]);
}

#[tokio::test]
async fn credential_of_a_webhook_is_sent_and_neither_replaced_nor_shown() {
    let Some(n8n) = Instance::new() else { return };
    let header = |value: &str| json!({"name": "X-Gate", "value": value});
    let user = |password: &str| json!({"user": "u", "password": password});
    for (scheme, data, wrong) in [
        ("headerAuth", header("s3cret-of-the-gate"), header("other")),
        ("basicAuth", user("p:ä"), user("other")),
    ] {
        let kind = if scheme == "headerAuth" {
            "httpHeaderAuth"
        } else {
            "httpBasicAuth"
        };
        let (trigger, id, name) = n8n.secured_webhook(scheme, kind, data.clone()).await;
        let all = set("={{ JSON.stringify([$json.body.input, $json.headers]) }}");
        let workflow = n8n.live(vec![trigger, all]).await;
        let env = n8n.env_without_mcp();
        // A proxy's user takes the header of Basic Auth: that of the webhook is sent in its place.
        let webhooks = n8n.config.url.replacen("://", "://proxy:user@", 1);
        let session_with = async |known: Value| {
            let known = known.to_string();
            let mut env = env.to_vec();
            env.push(("N8N_WEBHOOK_CREDENTIALS", &known));
            env.push(("N8N_WEBHOOK_URL", &webhooks));
            Session::start(SERVER, &env).await
        };
        // By name, and by id.
        for key in [&name, &id] {
            let session = session_with(json!({key: data})).await;
            let headers = json!({"X-Api-Key": "k3y-of-the-caller"});
            let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "in"}, "headers": headers});
            let ran = run_with(&session, arguments).await;
            assert_has!(ran, {"status": "completed", "way": "webhook"});
            let shown = &ran["output"]["result"];
            assert_starts_with(shown, "[\"in\",");
            assert_contains(shown, "x-api-key");
            assert_lacks(&ran, "k3y-of-the-caller");
            assert_lacks(&ran, "s3cret");
            n8n.execution(&ran).await;
            if scheme == "headerAuth" {
                let other = json!({"workflow_id": workflow.id, "headers": {"x-gate": "open"}});
                assert_refused(&session, "run_workflow", other, "N8N_WEBHOOK_CREDENTIALS").await;
            }
        }
        let id_only = json!({"workflow_id": workflow.id});
        let session = session_with(json!({&name: wrong})).await;
        refused!(session, "run_workflow", id_only, "refused the request");
        let session = session_with(json!({})).await;
        let variable = "N8N_WEBHOOK_CREDENTIALS";
        let message = assert_refused(&session, "run_workflow", id_only, variable).await;
        assert_contains(&message, &name);
        assert_eq!(n8n.executions(&workflow).await.as_array().unwrap().len(), 2);
    }
    // An invalid configuration is refused without repeating it.
    let mut env = n8n.env_without_mcp().to_vec();
    env.push(("N8N_WEBHOOK_CREDENTIALS", "{\"a\": \"SECRET\"}"));
    let server = Server::start(SERVER, &env).await;
    let workflow = n8n.draft(vec![webhook("lastNode")]).await;
    let message = refused!(server.client().await, "run_workflow", {"workflow_id": workflow.id});
    assert_starts_with(&message, "N8N_WEBHOOK_CREDENTIALS");
    assert_lacks(&message, "SECRET");
    assert_lacks(&server.log(), "SECRET");
}
