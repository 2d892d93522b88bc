//! The members that the server reads of the engine's replies, beside bollard's types: a member that is gone, renamed, or of
//! another type there fails the test. bollard makes its types of one version of the engine's OpenAPI file; the test
//! compares neither other versions nor what an engine sends. A member that the server reads for the first time belongs in
//! the table.

use bollard::models;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Read = fn(Value) -> serde_json::Result<Value>;

/// A request, the type of its reply, and one with all members that the server reads.
const REPLIES: [(&str, Read, &str); 13] = [
    (
        "GET /containers/json",
        read::<models::ContainerSummary>,
        r#"{"Id": "a", "Names": ["/a"], "Image": "a", "ImageID": "a", "Created": 1, "State": "running", "Status": "Up",
            "Ports": [{"IP": "::", "PrivatePort": 1, "PublicPort": 2, "Type": "tcp"}], "Labels": {"a": "b"},
            "Mounts": [{"Type": "volume", "Name": "a"}], "NetworkSettings": {"Networks": {"a": {}}}}"#,
    ),
    (
        "GET /containers/{id}/json",
        read::<models::ContainerInspectResponse>,
        r#"{"Id": "a", "Name": "/a", "Image": "a", "Created": "2026-01-01T00:00:00Z", "LogPath": "a", "Path": "a",
            "Args": ["a"], "RestartCount": 1,
            "State": {"Status": "exited", "Running": false, "OOMKilled": true, "ExitCode": 1, "Error": "a",
                "StartedAt": "2026-01-01T00:00:00Z", "FinishedAt": "2026-01-01T00:00:00Z",
                "Health": {"Status": "unhealthy", "FailingStreak": 1, "Log": [{"End": "2026-01-01T00:00:00Z",
                    "ExitCode": 1, "Output": "a"}]}},
            "Config": {"User": "a", "Tty": true, "Env": ["A=b"], "Image": "a", "WorkingDir": "/", "Labels": {"a": "b"},
                "Healthcheck": {"Test": ["CMD"]}, "StopTimeout": 1, "Hostname": "a", "Domainname": "a",
                "Entrypoint": ["a"], "Cmd": ["a"], "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/a": {}}, "OnBuild": ["a"],
                "StopSignal": "a", "Shell": ["a"]},
            "HostConfig": {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 1}, "AutoRemove": true,
                "LogConfig": {"Type": "local", "Config": {"a": "b"}}, "NetworkMode": "a", "Runtime": "a",
                "PortBindings": {"80/tcp": [{"HostIp": "a", "HostPort": "1"}]}, "Privileged": true, "Memory": 1,
                "MemorySwap": 1, "NanoCpus": 1, "PidsLimit": 1, "Tmpfs": {"/a": ""}, "Binds": ["a:/a"],
                "Mounts": [{"Type": "volume", "Source": "a", "Target": "/a"}], "SecurityOpt": ["a"], "Links": ["a"],
                "MaskedPaths": ["/a"], "ReadonlyPaths": ["/a"], "CgroupnsMode": "host", "ContainerIDFile": "a",
                "Isolation": "default"},
            "Mounts": [{"Type": "volume", "Name": "a", "Source": "/a", "Destination": "/a", "RW": true,
                "Propagation": "a"}],
            "NetworkSettings": {"Ports": {"80/tcp": [{"HostIp": "a", "HostPort": "1"}]},
                "Networks": {"a": {"IPAddress": "a", "NetworkID": "a", "IPAMConfig": {"IPv4Address": "a"},
                    "Links": ["a"], "Aliases": ["a"], "DriverOpts": {"a": "b"}, "GwPriority": 1, "MacAddress": "a"}}}}"#,
    ),
    (
        "GET /containers/{id}/stats",
        read::<models::ContainerStatsResponse>,
        r#"{"cpu_stats": {"cpu_usage": {"total_usage": 1, "percpu_usage": [1]}, "system_cpu_usage": 1, "online_cpus": 1,
                "throttling_data": {"throttled_periods": 1, "periods": 1}},
            "memory_stats": {"usage": 1, "limit": 1, "stats": {"inactive_file": 1, "total_inactive_file": 1}},
            "pids_stats": {"current": 1}, "networks": {"a": {"rx_bytes": 1, "tx_bytes": 1}},
            "blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": 1}]}}"#,
    ),
    (
        "GET /containers/{id}/top",
        read::<models::ContainerTopResponse>,
        r#"{"Titles": ["a"], "Processes": [["a"]]}"#,
    ),
    (
        "GET /containers/{id}/changes",
        read::<models::FilesystemChange>,
        r#"{"Path": "/a", "Kind": 1}"#,
    ),
    (
        "GET /events",
        read::<models::EventMessage>,
        r#"{"Type": "container", "Action": "die", "Actor": {"ID": "a", "Attributes": {"a": "b"}}, "time": 1,
            "timeNano": 1}"#,
    ),
    (
        "GET /images/json",
        read::<models::ImageSummary>,
        r#"{"Id": "a", "RepoTags": ["a"], "Created": 1, "Size": 1, "Labels": {"a": "b"}, "ParentId": "",
            "RepoDigests": [], "SharedSize": 0, "Containers": 0}"#,
    ),
    (
        "GET /images/{name}/json",
        read::<models::ImageInspect>,
        r#"{"Id": "a", "RepoTags": ["a"], "RepoDigests": ["a"], "Created": "2026-01-01T00:00:00Z", "Size": 1, "Os": "a",
            "Architecture": "a", "Config": {"User": "a", "WorkingDir": "a", "Entrypoint": ["a"], "Cmd": ["a"],
                "Env": ["a"], "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/a": {}}, "Labels": {"a": "b"},
                "Healthcheck": {"Test": ["a"]}}}"#,
    ),
    (
        "GET /networks/{id}",
        read::<models::NetworkInspect>,
        r#"{"Id": "a", "Name": "a", "Driver": "a", "Scope": "a", "Internal": true, "Created": "2026-01-01T00:00:00Z",
            "IPAM": {"Config": [{"Subnet": "a"}]}, "Labels": {"a": "b"},
            "Containers": {"a": {"Name": "a", "IPv4Address": "a"}}}"#,
    ),
    (
        "GET /volumes",
        read::<models::VolumeListResponse>,
        r#"{"Volumes": [{"Name": "a", "Driver": "a", "Scope": "local", "Mountpoint": "a", "CreatedAt": "2026-01-01T00:00:00Z",
            "Labels": {"a": "b"}, "Options": {"a": "b"}}]}"#,
    ),
    (
        "GET /system/df",
        read::<models::SystemDataUsageResponse>,
        r#"{"ImageUsage": SUM, "ContainerUsage": SUM, "VolumeUsage": SUM, "BuildCacheUsage": SUM}"#,
    ),
    (
        "GET /info",
        read::<models::SystemInfo>,
        r#"{"ServerVersion": "a", "Name": "a", "OperatingSystem": "a", "KernelVersion": "a", "Architecture": "a",
            "NCPU": 1, "MemTotal": 1, "Containers": 1, "ContainersRunning": 1, "ContainersPaused": 1,
            "ContainersStopped": 1, "Images": 1, "Driver": "a", "CgroupVersion": "2", "DockerRootDir": "a",
            "Warnings": ["a"]}"#,
    ),
    (
        "GET /version",
        read::<models::SystemVersion>,
        r#"{"Version": "a", "ApiVersion": "a", "Os": "a", "Arch": "a"}"#,
    ),
];

/// The members of a reply that are left when it was read as this type.
fn read<T: DeserializeOwned + Serialize>(reply: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(reply)?)
}

#[test]
fn members_that_are_read_are_in_the_file_of_the_engine() {
    let sum = r#"{"TotalCount": 1, "ActiveCount": 1, "TotalSize": 1, "Reclaimable": 1}"#;
    for (request, read, reply) in REPLIES {
        let reply: Value = serde_json::from_str(&reply.replace("SUM", sum)).unwrap();
        let known = read(reply.clone()).unwrap_or_else(|error| panic!("{request}: {error}"));
        assert_eq!(lost(&reply, &known), "", "{request}");
    }
}

/// The path of the first member of `reply` that `known` lacks, or has otherwise; empty if there is none.
fn lost(reply: &Value, known: &Value) -> String {
    let members: Vec<(String, &Value, &Value)> = match (reply, known) {
        (Value::Object(reply), Value::Object(_)) => {
            let members = reply.iter();
            members
                .map(|(name, value)| (format!("/{name}"), value, &known[name]))
                .collect()
        }
        (Value::Array(reply), Value::Array(known)) if reply.len() == known.len() => {
            let items = reply.iter().zip(known).enumerate();
            items
                .map(|(at, (value, known))| (format!("/{at}"), value, known))
                .collect()
        }
        _ if reply == known => Vec::new(),
        _ => return format!(": {reply} became {known}"),
    };
    let lost = members.into_iter().find_map(|(path, value, known)| {
        Some(lost(value, known))
            .filter(|lost| !lost.is_empty())
            .map(|lost| path + &lost)
    });
    lost.unwrap_or_default()
}
