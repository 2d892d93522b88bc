//! The order of the services of a project, from the labels that compose gives their containers.

use super::SERVICE;
use crate::engine::ContainerDetails;

/// The label with the services that one needs: `db:service_healthy:false,cache:service_started:true`.
const DEPENDS_ON: &str = "com.docker.compose.depends_on";

/// The services that a container needs, each with the condition that has to be met.
pub(crate) fn needs(container: &ContainerDetails) -> impl Iterator<Item = (&str, &str)> {
    let label = container.config.labels.get(DEPENDS_ON);
    let needs = label.into_iter().flat_map(|label| label.split(','));
    needs.filter_map(|need| {
        let mut parts = need.split(':');
        Some((parts.next()?, parts.next().unwrap_or_default()))
    })
}

/// Whether it is a container of this service.
pub(crate) fn is_of(container: &ContainerDetails, service: &str) -> bool {
    let label = container.config.labels.get(SERVICE);
    label.is_some_and(|name| name == service)
}

/// The containers in groups, each of which needs only services of the groups before it.
pub(crate) fn in_order(containers: Vec<ContainerDetails>) -> Vec<Vec<ContainerDetails>> {
    let (mut groups, mut left) = (Vec::new(), containers);
    while !left.is_empty() {
        let waits = |container: &ContainerDetails| {
            needs(container).any(|(service, _)| left.iter().any(|other| is_of(other, service)))
        };
        let waits: Vec<bool> = left.iter().map(waits).collect();
        // Compose refuses a circle; labels of another program have no order then.
        let is_circle = !waits.contains(&false);
        let mut waits = waits.into_iter();
        let is_next = |_: &ContainerDetails| is_circle || waits.next() == Some(false);
        let (next, rest) = left.into_iter().partition(is_next);
        groups.push(next);
        left = rest;
    }
    groups
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `service needs,needs` separated by blanks; the groups with their services.
    fn order(services: &str) -> String {
        let containers = services.split(' ').map(|service| {
            let (name, needs) = service.split_once('<').unwrap_or((service, ""));
            let labels = json!({SERVICE: name, DEPENDS_ON: needs});
            serde_json::from_value(json!({"Config": {"Labels": labels}})).unwrap()
        });
        let groups = in_order(containers.collect()).into_iter().map(|group| {
            let names = group.iter().map(|at| at.config.labels[SERVICE].clone());
            names.collect::<Vec<_>>().join(" ")
        });
        groups.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn services_come_after_those_that_they_need() {
        for (services, expected) in [
            ("a b", "a b"),
            ("web<db:service_healthy:false db", "db | web"),
            (
                "web<api:service_started:true,db:service_started:true api<db:service_started:true db web<db:x",
                "db | api web | web",
            ),
            ("web<gone:service_started:true", "web"),
            ("a<b:x b<a:x c", "c | a b"),
            ("a<a:x", "a"),
        ] {
            assert_eq!(order(services), expected, "{services}");
        }
    }
}
