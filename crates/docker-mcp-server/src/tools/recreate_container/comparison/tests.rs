//! Tests of the comparison.

use super::*;

/// A container with this change at `pointer`.
fn described(pointer: &str, value: Value) -> Described {
    let mut container = json!({
        "Id": "ab12cd34ef56", "Image": "sha256:1", "State": {"Running": true},
        "Config": {"Hostname": "ab12cd34ef56", "Domainname": "", "Env": ["A=1", "PATH=/bin"], "Cmd": ["run"],
            "Labels": {"a": "1"}, "ExposedPorts": {"80/tcp": {}}, "MacAddress": "02:42:ac:11:65:43"},
        "HostConfig": {"Memory": 5, "MemorySwap": 10, "Binds": null, "PublishAllPorts": false,
            "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}], "81/tcp": [{"HostIp": "", "HostPort": ""}]}},
        "Mounts": [{"Type": "volume", "Name": "f".repeat(64), "Destination": "/data", "RW": true}],
        "NetworkSettings": {
            "Networks": {"front": {"Aliases": ["web", "ab12cd34ef56"], "IPAMConfig": null, "IPAddress": "10.0.0.2",
                "MacAddress": "02:42:0a:00:00:02"}},
            "Ports": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}],
                "81/tcp": [{"HostIp": "0.0.0.0", "HostPort": "32768"}]}},
    });
    if !pointer.is_empty() {
        *container.pointer_mut(pointer).unwrap() = value;
    }
    let defaults = json!({"Cmd": ["run"], "Env": ["PATH=/bin"]});
    Described {
        container,
        defaults,
    }
}

#[test]
fn what_differs_is_named() {
    let other_mac =
        json!({"Aliases": ["web"], "IPAddress": "10.0.0.2", "MacAddress": "02:00:00:00:00:01"});
    for (pointer, value, expected) in [
        ("", json!(null), ""),
        (
            "/Config/ExposedPorts",
            json!(null),
            "Config.ExposedPorts.80/tcp",
        ),
        ("/Config/Env", json!(["A=2", "PATH=/bin"]), "Config.Env.A"),
        ("/Config/Env", json!(["A=1"]), "Config.Env.PATH"),
        ("/Config/Env", json!(["PATH=/bin", "A=1"]), ""),
        (
            "/Config/Labels",
            json!({"a": "1", "docker-mcp-server.created": "true"}),
            "",
        ),
        ("/Config/Labels", json!({}), "Config.Labels.a"),
        ("/Config/Cmd", json!(["other"]), "Config.Cmd"),
        ("/Config/Domainname", json!("x"), "Config.Domainname"),
        ("/Config/MacAddress", json!(null), "Config.MacAddress"),
        ("/Config/Hostname", json!("web"), "Config.Hostname"),
        ("/HostConfig/Memory", json!(6), "HostConfig.Memory"),
        ("/HostConfig/Binds", json!([]), ""),
        (
            "/HostConfig/Binds",
            json!([format!("{}:/data", "f".repeat(64))]),
            "",
        ),
        ("/HostConfig/Binds", json!(["x:/x"]), "HostConfig.Binds"),
        ("/Mounts/0/Name", json!("0".repeat(64)), "Mounts./data"),
        ("/Mounts", json!([]), "Mounts./data"),
        (
            "/NetworkSettings/Networks",
            json!({}),
            "NetworkSettings.Networks.front",
        ),
        (
            "/NetworkSettings/Networks/front/Aliases",
            json!(["web"]),
            "",
        ),
        (
            "/NetworkSettings/Networks/front/Aliases",
            json!([]),
            "NetworkSettings.Networks.front.Aliases",
        ),
        (
            "/NetworkSettings/Networks/front",
            other_mac,
            "NetworkSettings.Networks.front.MacAddress",
        ),
        (
            "/NetworkSettings/Networks/front/IPAMConfig",
            json!({"IPv4Address": "10.0.0.2"}),
            "NetworkSettings.Networks.front.IPAMConfig",
        ),
        (
            "/NetworkSettings/Ports/80~1tcp",
            json!(null),
            "NetworkSettings.Ports.80/tcp",
        ),
        (
            "/NetworkSettings/Ports/80~1tcp/0/HostPort",
            json!("8081"),
            "NetworkSettings.Ports.80/tcp",
        ),
        (
            "/NetworkSettings/Ports/80~1tcp/0/HostIp",
            json!("::"),
            "NetworkSettings.Ports.80/tcp",
        ),
        (
            "/NetworkSettings/Ports/81~1tcp/0/HostPort",
            json!("32769"),
            "",
        ),
        (
            "/NetworkSettings/Ports/81~1tcp",
            json!([]),
            "NetworkSettings.Ports.81/tcp",
        ),
    ] {
        let (old, new) = (described("", json!(null)), described(pointer, value));
        let found = differences(&old, &new, &Asked::default());
        assert_eq!(found.join(" "), expected, "{pointer}");
    }
}

#[test]
fn what_was_asked_for_and_what_an_image_brings_may_differ() {
    let asked = |changes: Value, config: Value, host: Value| {
        let mut asked = Asked::new(&members(changes));
        asked.add(&members(config), &members(host));
        asked
    };
    for (changes, config, host, pointer, value) in [
        (
            json!({"env": {"A": "2"}}),
            json!({}),
            json!({}),
            "/Config/Env",
            json!(["A=2", "PATH=/bin"]),
        ),
        (
            json!({}),
            json!({"Entrypoint": ["x"]}),
            json!({}),
            "/Config/Cmd",
            json!(null),
        ),
        (
            json!({}),
            json!({}),
            json!({"Memory": 1}),
            "/HostConfig/MemorySwap",
            json!(2),
        ),
        (
            json!({}),
            json!({}),
            json!({"PortBindings": {}}),
            "/Config/ExposedPorts",
            json!({}),
        ),
        (
            json!({}),
            json!({}),
            json!({"NetworkMode": "x"}),
            "/NetworkSettings/Networks",
            json!({}),
        ),
    ] {
        let new = described(pointer, value);
        let asked = asked(changes, config, host);
        assert_eq!(
            differences(&described("", json!(null)), &new, &asked),
            [""; 0]
        );
        assert_ne!(
            differences(&described("", json!(null)), &new, &Asked::default()),
            [""; 0]
        );
    }
    // Data of a volume without a name is kept also if other mounts were asked for.
    let none = described("/Mounts", json!([]));
    let asked = asked(json!({}), json!({}), json!({"Binds": []}));
    assert_eq!(
        differences(&described("", json!(null)), &none, &asked),
        ["Mounts./data"]
    );
    let mut new = described("/Config/Cmd", json!(["serve"]));
    new.container["Image"] = "sha256:2".into();
    new.container["Config"]["Env"] = json!(["A=1", "PATH=/usr/bin", "LANG=C"]);
    new.defaults = json!({"Cmd": ["serve"], "Env": ["PATH=/usr/bin", "LANG=C"]});
    let none = Asked::default();
    assert_eq!(
        differences(&described("", json!(null)), &new, &none),
        [""; 0]
    );
    new.container["Config"]["Env"] = json!(["A=1", "PATH=/usr/bin", "LANG=D"]);
    assert_eq!(
        differences(&described("", json!(null)), &new, &none),
        ["Config.Env.LANG"]
    );
}
