//! Keys of a report: those of the contract must be there, whatever else is.

use serde_json::Value;

/// Panics with the path of the first key that is missing or of another type.
pub fn holds_keys(contract: &Value, found: &Value, path: &str) {
    match (contract, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, value) in wanted {
                let here = format!("{path}.{key}");
                holds_keys(value, found.get(key).unwrap_or_else(|| panic!("{here} is missing")), &here);
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            if let Some(wanted) = wanted.first() {
                assert!(!found.is_empty(), "{path} is empty");
                found.iter().for_each(|f| holds_keys(wanted, f, path));
            }
        }
        (Value::Number(_), Value::Number(_)) | (Value::String(_), Value::String(_)) => {}
        (wanted, found) => panic!("{path}: {found} where the contract has {wanted}"),
    }
}
