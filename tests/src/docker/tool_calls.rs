//! A call of each tool for each object that it names: the tests of names, bounds and hidden objects share this table.

use serde_json::Value;

use super::calls_of;

/// The effect of a call on the object that it names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    /// Shows or uses it.
    Reads,
    /// Changes it, and loses nothing.
    Changes,
    /// May lose data of it.
    Loses,
}

/// The kind of the object, the use, and the call, in which `@` is its name. A `name` is that of an image, which another
/// one gets; `new` names no object yet; DIR is the directory of a project.
const ROWS: &str = r#"
container Reads get_container | {"container": "@"}
container Reads get_container_logs | {"container": "@"}
container Reads get_container_stats | {"container": "@"}
container Reads diagnose_container | {"container": "@"}
container Reads wait_container | {"container": "@", "timeout_seconds": 1}
container Reads get_container_logs | {"container": "@", "follow_seconds": 1}
container Reads copy_from_container | {"container": "@", "path": "/"}
container Changes start_container | {"container": "@"}
container Loses stop_container | {"container": "@"}
container Loses restart_container | {"container": "@"}
container Loses update_container | {"container": "@", "paused": true}
container Loses kill_container | {"container": "@", "confirm": "@"}
container Loses update_container | {"container": "@", "cpus": 1.0}
container Loses remove_container | {"container": "@", "force": true, "confirm": "@"}
container Loses recreate_container | {"container": "@", "confirm": "@"}
container Changes copy_to_container | {"container": "@", "path": "/x", "text": ""}
container Loses execute_command | {"container": "@", "command": ["true"]}
container Changes connect_network | {"container": "@", "network": "none"}
container Loses connect_network | {"container": "@", "network": "bridge", "disconnect": true, "confirm": "@"}
volume Reads list_volumes | {"volume": "@"}
volume Reads create_volume | {"volume": "@"}
volume Loses remove_volume | {"volume": "@"}
volume Reads create_container | {"mounts": ["@:/d:ro"], NEW}
volume Loses create_container | {"mounts": ["@:/d"], NEW}
network Reads list_networks | {"network": "@"}
network Loses remove_network | {"network": "@"}
network Reads create_container | {"network": "@", NEW}
network Changes connect_network | {"network": "@", "container": "OWN"}
network Reads connect_network | {"network": "@", "container": "OWN", "disconnect": true}
image Reads list_images | {"image": "@"}
image Loses remove_image | {"image": "@"}
image Reads create_container | {"image": "@", "only_create": true, "auto_remove": true}
image Reads tag_image | {"image": "@", "new_name": "mcp-test-never:2"}
image Reads push_image | {"image": "@"}
name Loses pull_image | {"image": "@"}
name Loses tag_image | {"image": "busybox:test", "new_name": "@"}
name Loses build_image | {"dockerfile": "FROM busybox:test", "tag": "@"}
new Changes update_container | {"container": "OWN", "new_name": "@"}
new Changes create_container | {"name": "@", NEW}
new Changes create_network | {"network": "@"}
project Reads get_container_logs | {"project": "@"}
project Loses compose_service | {"project": "@", "action": "down"}
project Loses compose_service | {"project": "@", "action": "stop"}
project Loses compose_service | {"project": "@", "action": "restart"}
project Loses compose_up | {"project": "@", "directory": "DIR"}
project Loses compose_up | {"project": "@", "directory": "DIR", "yaml": "services: {web: {image: 'busybox:test'}}"}
project Reads compose_config | {"project": "@", "directory": "DIR"}
"#;

/// A row of the table: kind, tool, use and arguments.
pub(super) type Row = (&'static str, &'static str, Use, Value);

pub(super) fn rows() -> Vec<Row> {
    let new = r#""image": "busybox:test", "only_create": true, "auto_remove": true"#;
    let rows = calls_of(ROWS, &[("NEW", new)]).into_iter();
    let rows = rows.map(|(row, arguments)| {
        let [kind, what, tool] = row.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let what = match what {
            "Reads" => Use::Reads,
            "Changes" => Use::Changes,
            _ => Use::Loses,
        };
        (kind, tool, what, arguments)
    });
    rows.collect()
}

/// The rows of these kinds with this name in place of `@`, and `own` in place of a container of this test.
pub(super) fn rows_on(kinds: &[&str], name: &str, own: &str) -> Vec<Row> {
    let rows = rows().into_iter().filter(|row| kinds.contains(&row.0));
    let filled = rows.map(|(kind, tool, what, arguments)| {
        let text = arguments.to_string().replace('@', name).replace("OWN", own);
        (kind, tool, what, serde_json::from_str(&text).unwrap())
    });
    filled.collect()
}

/// The rows of containers, with this one.
pub(super) fn calls_on(container: &str) -> Vec<Row> {
    rows_on(&["container"], container, "")
}
