//! Instances of a fan-out: their ids and specs.

use std::fmt;

use millstream_expr::ExprBudget;
use millstream_model::raw::RawJson;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::spec::{FanOut, NodeId, NodeSpec};
use super::state::FanOutInstances;

/// Maximum length of a fan-out's id, so that the ids of its instances stay valid.
pub(super) const MAX_ID: usize = NodeId::MAX_LEN - ".99999".len();

/// The node for one item. It has no parents of its own: the fan-out has already waited for them.
pub(super) fn instance_spec(template: &NodeSpec, index: usize) -> Option<NodeSpec> {
    Some(NodeSpec {
        id: instance_id(&template.id, index)?,
        parents: Vec::new(),
        agent: template.agent.clone(),
        task: template.task.clone(),
        options: template.options.clone(),
        on_failure: template.on_failure,
        is_final: false,
        fan_out: None,
        graph: template.graph.clone(),
        execution: template.execution.clone(),
    })
}

/// `NODE.0`, `NODE.1` and so on; `None` if the id is too long, which validation excludes.
pub fn instance_id(fan_out: &NodeId, index: usize) -> Option<NodeId> {
    NodeId::parse(format!("{fan_out}.{index}")).ok()
}

/// The fan-out that would own an instance with this id.
pub(super) fn fan_out_of_instance(id: &str) -> Option<&str> {
    let (fan_out, index) = id.rsplit_once('.')?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(fan_out)
}

/// The result of a fan-out: a summary. The results of the items are those of its instances.
pub fn fan_out_result(instances: FanOutInstances) -> RawJson {
    RawJson::from_trusted_text(format!("{{\"count\":{}}}", instances.all))
}

impl FanOut {
    /// The items of the list that `over` evaluates to.
    pub(crate) fn read_items(list: &RawJson, budget: &ExprBudget<'_>) -> Result<Vec<RawJson>, String> {
        budget.parse_json(list.len()).map_err(|error| error.to_string())?;
        let mut deserializer = serde_json::Deserializer::from_str(list.as_str());
        ItemsSeed(budget).deserialize(&mut deserializer).map_err(|_| {
            if let Some(end) = budget.end() {
                return end.reason().to_owned();
            }
            let kind = match list.as_str().trim_start().bytes().next() {
                Some(b'{') => "a map",
                Some(b'"') => "a string",
                Some(b't' | b'f') => "a bool",
                Some(b'n') | None => "null",
                Some(_) => "a number",
            };
            format!("a list is needed, not {kind}")
        })
    }
}

/// Deserialises the items of a list and charges each one to the budget.
struct ItemsSeed<'b>(&'b ExprBudget<'b>);

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = Vec<RawJson>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = Vec<RawJson>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<&RawValue>()? {
            self.0.build_item(item.get().len()).map_err(A::Error::custom)?;
            items.push(RawJson::from_trusted_text(item.get()));
        }
        Ok(items)
    }
}
