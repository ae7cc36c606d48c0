//! Compares the layouts with those of the C compiler for `infiniband/verbs.h`.

use super::super::mlx5;
use super::sys as abi;
use farwood_testkit::need;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

const HEADER: &str = "/usr/include/infiniband/verbs.h";

/// A C expression, and its value in Rust.
type Claim = (&'static str, usize);

macro_rules! claims {
    ($($c:literal $ours:ident: $($c_field:literal $field:ident),* $(,)?;)*) => {
        vec![
            $($((concat!("offsetof(struct ", $c, ", ", $c_field, ")"), offset_of!(abi::$ours, $field)),)*)*
        ]
    };
}

fn offsets() -> Vec<Claim> {
    claims! {
        "ibv_context" Context: "device" device, "ops" ops, "abi_compat" abi_compat;
        "ibv_context_ops" ContextOps: "poll_cq" poll_cq, "req_notify_cq" req_notify_cq,
            "post_srq_recv" post_srq_recv, "post_send" post_send;
        "ibv_device_attr" DeviceAttr: "vendor_id" vendor_id, "max_qp_wr" max_qp_wr, "max_cqe" max_cqe,
            "max_qp_rd_atom" max_qp_rd_atom, "max_qp_init_rd_atom" max_qp_init_rd_atom, "atomic_cap" atomic_cap,
            "max_srq_wr" max_srq_wr, "phys_port_cnt" phys_port_cnt;
        "ibv_device_attr_ex" DeviceAttrEx: "max_dm_size" max_dm_size;
        "ibv_port_attr" PortAttr: "state" state, "active_mtu" active_mtu, "gid_tbl_len" gid_tbl_len, "lid" lid,
            "link_layer" link_layer;
        "ibv_gid_entry" GidEntry: "gid" gid, "gid_index" gid_index, "gid_type" gid_type;
        "ibv_srq" Srq: "context" context;
        "ibv_comp_channel" CompChannel: "fd" fd;
        "ibv_cq" Cq: "context" context;
        "ibv_mr" Mr: "lkey" lkey, "rkey" rkey;
        "ibv_dm" Dm: "memcpy_to_dm" memcpy_to_dm;
        "ibv_alloc_dm_attr" AllocDmAttr: "length" length, "log_align_req" log_align_req, "comp_mask" comp_mask;
        "ibv_qp" Qp: "context" context, "qp_num" qp_num;
        "ibv_qp_ex" QpEx: "wr_id" wr_id, "wr_flags" wr_flags, "wr_atomic_cmp_swp" atomic_cmp_swp,
            "wr_atomic_fetch_add" atomic_fetch_add, "wr_rdma_read" rdma_read, "wr_rdma_write" rdma_write,
            "wr_rdma_write_imm" rdma_write_imm, "wr_set_inline_data" set_inline_data, "wr_set_sge" set_sge,
            "wr_start" start, "wr_complete" complete;
        "mlx5dv_qp_ex" Mlx5QpEx: "wr_raw_wqe" raw_wqe;
        "mlx5dv_qp_init_attr" Mlx5QpInitAttr: "comp_mask" comp_mask, "send_ops_flags" send_ops_flags;
        "ibv_qp_init_attr" QpInitAttr: "send_cq" send_cq, "recv_cq" recv_cq, "srq" srq, "cap" cap,
            "qp_type" qp_type, "sq_sig_all" sq_sig_all;
        "ibv_qp_init_attr_ex" QpInitAttrEx: "pd" pd, "send_ops_flags" send_ops_flags;
        "ibv_ah_attr" AhAttr: "grh.dgid" dgid, "grh.flow_label" flow_label, "grh.sgid_index" sgid_index,
            "grh.hop_limit" hop_limit, "dlid" dlid, "sl" sl, "is_global" is_global, "port_num" port_num;
        "ibv_qp_attr" QpAttr: "qp_state" qp_state, "path_mtu" path_mtu, "rq_psn" rq_psn, "sq_psn" sq_psn,
            "dest_qp_num" dest_qp_num, "qp_access_flags" qp_access_flags, "ah_attr" ah_attr,
            "pkey_index" pkey_index, "max_rd_atomic" max_rd_atomic, "max_dest_rd_atomic" max_dest_rd_atomic,
            "min_rnr_timer" min_rnr_timer, "port_num" port_num, "timeout" timeout, "retry_cnt" retry_cnt,
            "rnr_retry" rnr_retry;
        "ibv_send_wr" SendWr: "wr_id" wr_id, "next" next, "sg_list" sg_list, "num_sge" num_sge, "opcode" opcode,
            "send_flags" send_flags, "imm_data" imm_data, "wr.rdma.remote_addr" remote_addr,
            "wr.rdma.rkey" key_or_compare, "wr.atomic.remote_addr" remote_addr,
            "wr.atomic.compare_add" key_or_compare, "wr.atomic.swap" swap, "wr.atomic.rkey" atomic_key;
        "ibv_recv_wr" RecvWr: "wr_id" wr_id, "next" next, "sg_list" sg_list, "num_sge" num_sge;
        "ibv_wc" Wc: "wr_id" wr_id, "status" status, "opcode" opcode, "vendor_err" vendor_err, "imm_data" imm_data,
            "qp_num" qp_num, "wc_flags" wc_flags;
        "ibv_srq_init_attr" SrqInitAttr: "attr.max_wr" max_wr, "attr.max_sge" max_sge;
    }
}

/// The extended table grows at its front, so its fields are compared by their distance to the end. Its last
/// field is the context.
fn distances() -> Vec<Claim> {
    let end = size_of::<abi::VerbsContext>();
    vec![
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, reg_dm_mr)",
            end - offset_of!(abi::VerbsContext, reg_dm_mr),
        ),
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, alloc_dm)",
            end - offset_of!(abi::VerbsContext, alloc_dm),
        ),
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, free_dm)",
            end - offset_of!(abi::VerbsContext, free_dm),
        ),
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, query_device_ex)",
            end - offset_of!(abi::VerbsContext, query_device_ex),
        ),
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, create_qp_ex)",
            end - offset_of!(abi::VerbsContext, create_qp_ex),
        ),
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, sz)",
            end - offset_of!(abi::VerbsContext, size),
        ),
        (
            "sizeof(struct verbs_context) - offsetof(struct verbs_context, context)",
            end - offset_of!(abi::VerbsContext, context),
        ),
    ]
}

/// Sizes of structures that are passed as a whole, and constants.
fn numbers() -> Vec<Claim> {
    use abi::numbers as n;
    vec![
        ("sizeof(struct ibv_device_attr)", size_of::<abi::DeviceAttr>()),
        ("sizeof(struct ibv_gid_entry)", size_of::<abi::GidEntry>()),
        ("sizeof(struct ibv_qp_attr)", size_of::<abi::QpAttr>()),
        ("sizeof(struct ibv_qp_init_attr)", size_of::<abi::QpInitAttr>()),
        ("sizeof(struct mlx5dv_qp_init_attr)", size_of::<abi::Mlx5QpInitAttr>()),
        ("sizeof(struct ibv_wc)", size_of::<abi::Wc>()),
        ("sizeof(struct ibv_sge)", size_of::<abi::Sge>()),
        ("sizeof(struct ibv_srq_init_attr)", size_of::<abi::SrqInitAttr>()),
        ("IBV_QPT_RC", n::RC as usize),
        ("IBV_QPS_INIT + 10 * IBV_QPS_RTR + 100 * IBV_QPS_RTS + 1000 * IBV_QPS_ERR", 6321),
        ("IBV_WR_RDMA_WRITE", n::WR_WRITE as usize),
        ("IBV_WR_RDMA_WRITE_WITH_IMM", n::WR_WRITE_IMM as usize),
        ("IBV_WR_RDMA_READ", n::WR_READ as usize),
        ("IBV_WR_ATOMIC_CMP_AND_SWP", n::WR_CAS as usize),
        ("IBV_WR_ATOMIC_FETCH_AND_ADD", n::WR_FAA as usize),
        ("IBV_SEND_FENCE", n::FENCE as usize),
        ("IBV_SEND_SIGNALED", n::SIGNALED as usize),
        ("IBV_SEND_INLINE", n::INLINE as usize),
        ("IBV_WC_RECV_RDMA_WITH_IMM", n::WC_RECV_IMM as usize),
        ("IBV_PORT_ACTIVE", n::PORT_ACTIVE as usize),
        ("IBV_LINK_LAYER_ETHERNET", n::ETHERNET as usize),
        ("IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS", n::WITH_PD_AND_SEND_OPS as usize),
        (
            "IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ \
             | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD",
            n::SEND_OPS as usize,
        ),
        ("IBV_ACCESS_LOCAL_WRITE", n::LOCAL_WRITE as usize),
        ("IBV_ACCESS_REMOTE_WRITE", n::REMOTE_WRITE as usize),
        ("IBV_ACCESS_REMOTE_READ", n::REMOTE_READ as usize),
        ("IBV_ACCESS_REMOTE_ATOMIC", n::REMOTE_ATOMIC as usize),
        ("IBV_ACCESS_ZERO_BASED", n::ZERO_BASED as usize),
        ("MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS", n::MLX5_SEND_OPS_FLAGS as usize),
        ("MLX5DV_QP_EX_WITH_RAW_WQE", n::MLX5_RAW_WQE as usize),
        ("MLX5_OPCODE_ATOMIC_MASKED_CS", mlx5::OPCODE as usize),
        ("MLX5_WQE_CTRL_FENCE", mlx5::FENCE.into()),
        ("MLX5_WQE_CTRL_CQ_UPDATE", mlx5::COMPLETION.into()),
        (
            "sizeof(struct mlx5_wqe_ctrl_seg) + sizeof(struct mlx5_wqe_raddr_seg) \
             + 2 * sizeof(struct mlx5_wqe_atomic_seg) + sizeof(struct mlx5_wqe_data_seg)",
            mlx5::REQUEST_BYTES,
        ),
    ]
}

#[test]
fn layouts_match_the_headers() {
    if need::file(need::VERBS_HEADER, Path::new(HEADER)).is_none() {
        return;
    }
    let claims: Vec<Claim> = [offsets(), distances(), numbers()].concat();
    let mut lines = String::new();
    for (c, _) in &claims {
        lines.push_str("    printf(\"%zu\\n\", (size_t)(");
        lines.push_str(c);
        lines.push_str(
            "));
",
        );
    }
    let program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <infiniband/mlx5dv.h>\n\
         int main(void) {{\n{lines}    return 0;\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("abi.c"), folder.path().join("abi"));
    std::fs::write(&source, program).unwrap();
    let compiled =
        Command::new("cc").arg(&source).arg("-o").arg(&binary).status().expect("there is a C compiler");
    assert!(compiled.success(), "the header names all of it");
    let said = Command::new(&binary).output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let theirs: Vec<usize> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), claims.len());
    for ((what, ours), theirs) in claims.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{what}");
    }
}
