//! What the load program is told, in one line: names stand for options, and names in capitals for
//! texts with spaces.

/// The names of requests, and their options.
const REQUESTS: [(&str, &str); 9] = [
    ("echo", "--header JSON --body ECHO --expect OK"),
    ("batch", "--header JSON --body BATCH --expect PART"),
    ("list", "--header JSON --body LIST"),
    ("stream", "--header STREAM --body ECHO --expect PART"),
    // Some servers answer nobody who would not take both.
    (
        "items",
        "--header BOTH --header VERSION --body ITEMS --expect LAST",
    ),
    (
        "echo-for-all",
        "--header BOTH --header VERSION --body ECHO --expect SAID",
    ),
    // The bare server sends as many bytes as its path says.
    ("echo-sized", "--header JSON --body ECHO --path SIZE"),
    ("batch-sized", "--header JSON --body BATCH --path SIZE"),
    ("list-sized", "--header JSON --body LIST --path SIZE"),
];

const ECHO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"hello hello hello hello hello hello"}}}"#;
const ITEMS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_items","arguments":{}}}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// Returns the words of a line; `size` is that of an answer.
pub(super) fn words(line: &str, size: usize) -> Vec<String> {
    let words = line.split_whitespace().map(options);
    let words = words.flat_map(str::split_whitespace);
    words.map(|word| text(word, size)).collect()
}

fn options(word: &str) -> &str {
    let found = REQUESTS.iter().find(|(name, _)| *name == word);
    found.map_or(word, |(_, options)| options)
}

fn text(word: &str, size: usize) -> String {
    let text = match word {
        "JSON" => "Accept: application/json",
        "STREAM" => "Accept: text/event-stream",
        "BOTH" => "Accept: application/json, text/event-stream",
        "VERSION" => "MCP-Protocol-Version: 2025-06-18",
        "TOKEN" => "Authorization: Bearer bench",
        "ECHO" => ECHO,
        "ITEMS" => ITEMS,
        "INITIALIZE" => INITIALIZE,
        "LIST" => r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        "OK" => r#""isError":false}}"#,
        "PART" => r#""isError":false"#,
        "SAID" => "hello hello",
        "LAST" => "item number 49",
        "BATCH" => return format!("[{}]", [ECHO; 10].join(",")),
        "SIZE" => return format!("/{size}"),
        word => word,
    };
    text.to_owned()
}
