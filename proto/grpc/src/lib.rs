//! gRPC messages and services of the control plane, generated from `proto/seamlog.proto`.

#![allow(clippy::all, missing_docs)]

tonic::include_proto!("seamlog.v1");
