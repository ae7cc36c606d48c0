//! The memory layouts of libibverbs' objects: a manual translation of the parts of `infiniband/verbs.h` that this
//! fabric uses.
//!
//! Most verbs are inline functions of that header. They call functions in tables of the objects themselves, so their
//! layout is part of the library's interface, kept stable since `IBVERBS_1.1`; new functions are added at the front of
//! [`VerbsContext`], which contains its own size. `const` asserts at the bottom verify the layouts for a 64-bit Linux,
//! and `tests.rs` compares them with the C compiler's where the header is installed.
//!
//! Fields that this crate does not read are `_`-prefixed. Names are the header's without their prefix.

#![expect(clippy::struct_field_names, reason = "they are the header's")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;

/// `abi_compat` of a context that lies in a [`VerbsContext`]: `__VERBS_ABI_IS_EXTENDED`.
pub(in crate::rdma) const ABI_IS_EXTENDED: usize = usize::MAX;

/// An object of libibverbs whose fields this crate does not access.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Opaque([u8; 0]);

/// `struct ibv_device`: only its address is used.
pub(in crate::rdma) type Device = Opaque;

/// `struct ibv_context_ops`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct ContextOps {
    _compat_before_poll: [usize; 11],
    /// `poll_cq`
    pub(in crate::rdma) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    /// `req_notify_cq`
    pub(in crate::rdma) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    _compat_before_srq: [usize; 7],
    /// `post_srq_recv`
    pub(in crate::rdma) post_srq_recv:
        Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    _compat_before_send: [usize; 4],
    /// `post_send`
    pub(in crate::rdma) post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    _post_recv: usize,
    _compat_rest: [usize; 5],
}

/// The size depends on the machine: 40 bytes on x86-64, 48 on 64-bit ARM.
type Mutex = MaybeUninit<libc::pthread_mutex_t>;
/// The size depends on the machine, too.
type Condition = MaybeUninit<libc::pthread_cond_t>;

/// `struct ibv_context`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Context {
    /// `device`
    pub(in crate::rdma) device: *mut Device,
    /// Functions of the device's driver.
    pub(in crate::rdma) ops: ContextOps,
    _cmd_fd: c_int,
    _async_fd: c_int,
    _num_comp_vectors: c_int,
    _mutex: Mutex,
    /// [`ABI_IS_EXTENDED`], where it lies in a [`VerbsContext`].
    pub(in crate::rdma) abi_compat: usize,
}

/// `struct verbs_context`: grows at its front.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct VerbsContext {
    _before_dm: [usize; 7],
    /// `reg_dm_mr`
    pub(in crate::rdma) reg_dm_mr:
        Option<unsafe extern "C" fn(*mut Pd, *mut Dm, u64, usize, c_uint) -> *mut Mr>,
    /// `alloc_dm`
    pub(in crate::rdma) alloc_dm: Option<unsafe extern "C" fn(*mut Context, *mut AllocDmAttr) -> *mut Dm>,
    /// `free_dm`
    pub(in crate::rdma) free_dm: Option<unsafe extern "C" fn(*mut Dm) -> c_int>,
    _before_device: [usize; 17],
    /// `query_device_ex`
    pub(in crate::rdma) query_device_ex:
        Option<unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int>,
    _before_qp: [usize; 5],
    /// `create_qp_ex`
    pub(in crate::rdma) create_qp_ex:
        Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
    _after_qp: [usize; 5],
    /// Bytes before `context` that the library knows of.
    pub(in crate::rdma) size: usize,
    /// The public part of the object.
    pub(in crate::rdma) context: Context,
}

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct DeviceAttr {
    /// `fw_ver`
    pub(in crate::rdma) firmware: [c_char; 64],
    _guids: [u64; 2],
    _max_mr_size: u64,
    _page_size_cap: u64,
    /// `vendor_id`
    pub(in crate::rdma) vendor_id: u32,
    /// `vendor_part_id`
    pub(in crate::rdma) vendor_part_id: u32,
    _hw_ver: u32,
    _max_qp: c_int,
    /// `max_qp_wr`
    pub(in crate::rdma) max_qp_wr: c_int,
    _flags: c_uint,
    _max_sge: [c_int; 2],
    _max_cq: c_int,
    /// `max_cqe`
    pub(in crate::rdma) max_cqe: c_int,
    _max_mr: [c_int; 2],
    /// `max_qp_rd_atom`
    pub(in crate::rdma) max_qp_rd_atom: c_int,
    _max_ee: [c_int; 2],
    /// `max_qp_init_rd_atom`
    pub(in crate::rdma) max_qp_init_rd_atom: c_int,
    _max_ee_init: c_int,
    /// `atomic_cap`: 0 none, 1 among this card's own, 2 with the processor's too
    pub(in crate::rdma) atomic_cap: c_int,
    _max_others: [c_int; 11],
    _max_srq: c_int,
    /// `max_srq_wr`
    pub(in crate::rdma) max_srq_wr: c_int,
    _max_srq_sge: c_int,
    _max_pkeys: u16,
    _ack_delay: u8,
    /// `phys_port_cnt`
    pub(in crate::rdma) phys_port_cnt: u8,
}

/// `struct ibv_device_attr_ex`, up to the field that is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct DeviceAttrEx {
    /// `orig_attr`
    pub(in crate::rdma) plain: DeviceAttr,
    _between: [u64; 18],
    /// `max_dm_size`: device memory, bytes
    pub(in crate::rdma) max_dm_size: u64,
    _rest: [u64; 2],
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct PortAttr {
    /// `state`: 4 is active
    pub(in crate::rdma) state: c_uint,
    _max_mtu: c_uint,
    /// `active_mtu`: 1 to 5 for 256 to 4096 bytes
    pub(in crate::rdma) active_mtu: c_uint,
    /// `gid_tbl_len`
    pub(in crate::rdma) gid_tbl_len: c_int,
    _flags_and_counters: [u32; 4],
    _pkey_tbl_len: u16,
    /// `lid`
    pub(in crate::rdma) lid: u16,
    _sm_lid: u16,
    _bytes: [u8; 8],
    /// `link_layer`: 1 InfiniBand, 2 Ethernet
    pub(in crate::rdma) link_layer: u8,
    _flags: u8,
    _port_cap_flags2: u16,
}

/// `struct ibv_gid_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct GidEntry {
    /// `gid`, in the order in which it goes over the wire
    pub(in crate::rdma) gid: [u8; 16],
    /// `gid_index`
    pub(in crate::rdma) gid_index: u32,
    pub(in crate::rdma) _port_num: u32,
    /// `gid_type`: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
    pub(in crate::rdma) gid_type: u32,
    pub(in crate::rdma) _ndev_ifindex: u32,
    pub(in crate::rdma) _pad: [u64; 0],
}

/// `struct ibv_pd`: only its address is used.
pub(in crate::rdma) type Pd = Opaque;
/// `struct ibv_srq`: its first field is its context.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Srq {
    /// `context`
    pub(in crate::rdma) context: *mut Context,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct CompChannel {
    _context: *mut Context,
    /// `fd`: readable when there is an event
    pub(in crate::rdma) fd: c_int,
    _refcnt: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Cq {
    /// `context`
    pub(in crate::rdma) context: *mut Context,
    _channel: *mut CompChannel,
    _cq_context: *mut c_void,
    _handle: u32,
    _cqe: c_int,
    _mutex: Mutex,
    _condition: Condition,
    _events: [u32; 2],
}

/// `struct ibv_mr`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Mr {
    _context: *mut Context,
    _pd: *mut Pd,
    _addr: *mut c_void,
    _length: usize,
    _handle: u32,
    /// `lkey`
    pub(in crate::rdma) lkey: u32,
    /// `rkey`
    pub(in crate::rdma) rkey: u32,
}

/// `struct ibv_dm`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Dm {
    _context: *mut Context,
    /// `memcpy_to_dm`
    pub(in crate::rdma) memcpy_to_dm:
        Option<unsafe extern "C" fn(*mut Dm, u64, *const c_void, usize) -> c_int>,
    _memcpy_from_dm: usize,
    _comp_mask: u32,
    _handle: u32,
}

/// `struct ibv_alloc_dm_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct AllocDmAttr {
    /// `length`
    pub(in crate::rdma) length: usize,
    /// `log_align_req`
    pub(in crate::rdma) log_align_req: u32,
    /// `comp_mask`
    pub(in crate::rdma) comp_mask: u32,
}

/// `struct ibv_qp`.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Qp {
    /// `context`
    pub(in crate::rdma) context: *mut Context,
    _qp_context: *mut c_void,
    _pd: *mut Pd,
    _cqs: [*mut Cq; 2],
    _srq: *mut Srq,
    _handle: u32,
    /// `qp_num`
    pub(in crate::rdma) qp_num: u32,
    _state: c_uint,
    _qp_type: c_uint,
    _mutex: Mutex,
    _condition: Condition,
    _events_completed: u32,
}

/// `struct ibv_qp_ex`: a queue pair with the extended way to post. Later versions have more fields at its end.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct QpEx {
    _base: Qp,
    _comp_mask: u64,
    /// `wr_id` of the requests that follow
    pub(in crate::rdma) wr_id: u64,
    /// `wr_flags` of the requests that follow
    pub(in crate::rdma) wr_flags: c_uint,
    /// `wr_atomic_cmp_swp`: key, address, compare, swap
    pub(in crate::rdma) atomic_cmp_swp: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u64, u64)>,
    /// `wr_atomic_fetch_add`: key, address, add
    pub(in crate::rdma) atomic_fetch_add: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u64)>,
    _bind_and_inv: [usize; 2],
    /// `wr_rdma_read`: key, address
    pub(in crate::rdma) rdma_read: Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>,
    /// `wr_rdma_write`: key, address
    pub(in crate::rdma) rdma_write: Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>,
    /// `wr_rdma_write_imm`: key, address, immediate in network order
    pub(in crate::rdma) rdma_write_imm: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
    _sends: [usize; 4],
    _ud_and_xrc: [usize; 2],
    /// `wr_set_inline_data`
    pub(in crate::rdma) set_inline_data: Option<unsafe extern "C" fn(*mut QpEx, *mut c_void, usize)>,
    _set_inline_data_list: usize,
    /// `wr_set_sge`: key, address, bytes
    pub(in crate::rdma) set_sge: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
    _set_sge_list: usize,
    /// `wr_start`
    pub(in crate::rdma) start: Option<unsafe extern "C" fn(*mut QpEx)>,
    /// `wr_complete`
    pub(in crate::rdma) complete: Option<unsafe extern "C" fn(*mut QpEx) -> c_int>,
    _abort: usize,
}

/// `struct mlx5dv_qp_ex`: the additional requests of mlx5 cards. Later versions have more functions at its end.
#[repr(C)]
#[derive(Debug)]
pub(in crate::rdma) struct Mlx5QpEx {
    _comp_mask: u64,
    _dc_and_mkeys: [usize; 8],
    /// `wr_raw_wqe`: a request as the card reads it
    pub(in crate::rdma) raw_wqe: Option<unsafe extern "C" fn(*mut Mlx5QpEx, *const c_void)>,
    _rest: [usize; 3],
}

/// `struct mlx5dv_qp_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Mlx5QpInitAttr {
    /// `comp_mask`
    pub(in crate::rdma) comp_mask: u64,
    /// `create_flags`, as a word, and `dc_init_attr`
    pub(in crate::rdma) unused: [u64; 3],
    /// `send_ops_flags`
    pub(in crate::rdma) send_ops_flags: u64,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct QpCap {
    /// `max_send_wr`
    pub(in crate::rdma) max_send_wr: u32,
    /// `max_recv_wr`
    pub(in crate::rdma) max_recv_wr: u32,
    /// `max_send_sge`
    pub(in crate::rdma) max_send_sge: u32,
    /// `max_recv_sge`
    pub(in crate::rdma) max_recv_sge: u32,
    /// `max_inline_data`
    pub(in crate::rdma) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct QpInitAttr {
    /// `qp_context`
    pub(in crate::rdma) qp_context: *mut c_void,
    /// `send_cq`
    pub(in crate::rdma) send_cq: *mut Cq,
    /// `recv_cq`
    pub(in crate::rdma) recv_cq: *mut Cq,
    /// `srq`
    pub(in crate::rdma) srq: *mut Srq,
    /// `cap`; the driver writes the values that it has granted
    pub(in crate::rdma) cap: QpCap,
    /// `qp_type`: 2 is RC
    pub(in crate::rdma) qp_type: c_uint,
    /// `sq_sig_all`
    pub(in crate::rdma) sq_sig_all: c_int,
    /// Of `struct ibv_qp_init_attr_ex` only: `comp_mask`. Padding in the plain structure.
    pub(in crate::rdma) comp_mask: u32,
}

/// `struct ibv_qp_init_attr_ex`, up to the field that is used last.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct QpInitAttrEx {
    /// Its first fields, which are the plain one's and [`comp_mask`](QpInitAttr::comp_mask).
    pub(in crate::rdma) plain: QpInitAttr,
    /// `pd`
    pub(in crate::rdma) pd: *mut Pd,
    /// `xrcd`, `create_flags` and what follows
    pub(in crate::rdma) unused: [u64; 7],
    /// `send_ops_flags`
    pub(in crate::rdma) send_ops_flags: u64,
}

/// `struct ibv_ah_attr`, with its `ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct AhAttr {
    /// `grh.dgid`
    pub(in crate::rdma) dgid: [u8; 16],
    /// `grh.flow_label`
    pub(in crate::rdma) flow_label: u32,
    /// `grh.sgid_index`
    pub(in crate::rdma) sgid_index: u8,
    /// `grh.hop_limit`
    pub(in crate::rdma) hop_limit: u8,
    /// `grh.traffic_class`
    pub(in crate::rdma) traffic_class: u8,
    pub(in crate::rdma) _grh_pad: u8,
    /// `dlid`
    pub(in crate::rdma) dlid: u16,
    /// `sl`
    pub(in crate::rdma) sl: u8,
    pub(in crate::rdma) _src_path_bits: u8,
    pub(in crate::rdma) _static_rate: u8,
    /// `is_global`
    pub(in crate::rdma) is_global: u8,
    /// `port_num`
    pub(in crate::rdma) port_num: u8,
    pub(in crate::rdma) _pad: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct QpAttr {
    /// `qp_state`
    pub(in crate::rdma) qp_state: c_uint,
    pub(in crate::rdma) _cur_qp_state: c_uint,
    /// `path_mtu`
    pub(in crate::rdma) path_mtu: c_uint,
    pub(in crate::rdma) _path_mig_state: c_uint,
    pub(in crate::rdma) _qkey: u32,
    /// `rq_psn`
    pub(in crate::rdma) rq_psn: u32,
    /// `sq_psn`
    pub(in crate::rdma) sq_psn: u32,
    /// `dest_qp_num`
    pub(in crate::rdma) dest_qp_num: u32,
    /// `qp_access_flags`
    pub(in crate::rdma) qp_access_flags: c_uint,
    pub(in crate::rdma) _cap: QpCap,
    /// `ah_attr`
    pub(in crate::rdma) ah_attr: AhAttr,
    pub(in crate::rdma) _alt_ah_attr: AhAttr,
    /// `pkey_index`
    pub(in crate::rdma) pkey_index: u16,
    pub(in crate::rdma) _alt_pkey_index: u16,
    pub(in crate::rdma) _sqd: [u8; 2],
    /// `max_rd_atomic`
    pub(in crate::rdma) max_rd_atomic: u8,
    /// `max_dest_rd_atomic`
    pub(in crate::rdma) max_dest_rd_atomic: u8,
    /// `min_rnr_timer`
    pub(in crate::rdma) min_rnr_timer: u8,
    /// `port_num`
    pub(in crate::rdma) port_num: u8,
    /// `timeout`
    pub(in crate::rdma) timeout: u8,
    /// `retry_cnt`
    pub(in crate::rdma) retry_cnt: u8,
    /// `rnr_retry`
    pub(in crate::rdma) rnr_retry: u8,
    pub(in crate::rdma) _alt: [u8; 2],
    pub(in crate::rdma) _rate_limit: u32,
    pub(in crate::rdma) _pad: [u64; 0],
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct Sge {
    /// `addr`
    pub(in crate::rdma) addr: u64,
    /// `length`
    pub(in crate::rdma) length: u32,
    /// `lkey`
    pub(in crate::rdma) lkey: u32,
}

/// `struct ibv_send_wr`. Its union is represented by the words of the largest member in use: address, then (for
/// atomics) compare and swap; the key follows the address, or the swap.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct SendWr {
    /// `wr_id`
    pub(in crate::rdma) wr_id: u64,
    /// `next`
    pub(in crate::rdma) next: *mut SendWr,
    /// `sg_list`
    pub(in crate::rdma) sg_list: *mut Sge,
    /// `num_sge`
    pub(in crate::rdma) num_sge: c_int,
    /// `opcode`
    pub(in crate::rdma) opcode: c_uint,
    /// `send_flags`
    pub(in crate::rdma) send_flags: c_uint,
    /// `imm_data`, in network order
    pub(in crate::rdma) imm_data: u32,
    /// `wr.rdma.remote_addr`, `wr.atomic.remote_addr`
    pub(in crate::rdma) remote_addr: u64,
    /// `wr.rdma.rkey` as a word, or `wr.atomic.compare_add`
    pub(in crate::rdma) key_or_compare: u64,
    /// `wr.atomic.swap`
    pub(in crate::rdma) swap: u64,
    /// `wr.atomic.rkey`, as a word
    pub(in crate::rdma) atomic_key: u64,
    /// `qp_type`, `bind_mw` and `tso`
    pub(in crate::rdma) unused: [u64; 7],
}

/// `struct ibv_recv_wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct RecvWr {
    /// `wr_id`
    pub(in crate::rdma) wr_id: u64,
    /// `next`
    pub(in crate::rdma) next: *mut RecvWr,
    /// `sg_list`
    pub(in crate::rdma) sg_list: *mut Sge,
    /// `num_sge`
    pub(in crate::rdma) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rdma) struct Wc {
    /// `wr_id`
    pub(in crate::rdma) wr_id: u64,
    /// `status`; 0 is success
    pub(in crate::rdma) status: c_uint,
    /// `opcode`, undefined if there is an error
    pub(in crate::rdma) opcode: c_uint,
    /// `vendor_err`
    pub(in crate::rdma) vendor_err: u32,
    /// `byte_len`
    pub(in crate::rdma) byte_len: u32,
    /// `imm_data`, in network order
    pub(in crate::rdma) imm_data: u32,
    /// `qp_num`
    pub(in crate::rdma) qp_num: u32,
    _src_qp: u32,
    /// `wc_flags`
    pub(in crate::rdma) wc_flags: c_uint,
    _pkey_index: u16,
    _slid: u16,
    _bytes: [u8; 2],
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct SrqInitAttr {
    /// `srq_context`
    pub(in crate::rdma) srq_context: *mut c_void,
    /// `attr.max_wr`
    pub(in crate::rdma) max_wr: u32,
    /// `attr.max_sge`
    pub(in crate::rdma) max_sge: u32,
    /// `attr.srq_limit`
    pub(in crate::rdma) srq_limit: u32,
}

/// Numbers of the header.
pub(in crate::rdma) mod numbers {
    /// `IBV_ACCESS_LOCAL_WRITE`
    pub(in crate::rdma) const LOCAL_WRITE: u32 = 1;
    /// `IBV_ACCESS_REMOTE_WRITE`
    pub(in crate::rdma) const REMOTE_WRITE: u32 = 2;
    /// `IBV_ACCESS_REMOTE_READ`
    pub(in crate::rdma) const REMOTE_READ: u32 = 4;
    /// `IBV_ACCESS_REMOTE_ATOMIC`
    pub(in crate::rdma) const REMOTE_ATOMIC: u32 = 8;
    /// `IBV_ACCESS_ZERO_BASED`
    pub(in crate::rdma) const ZERO_BASED: u32 = 32;
    /// `IBV_QPT_RC`
    pub(in crate::rdma) const RC: u32 = 2;
    /// `IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`
    pub(in crate::rdma) const WITH_PD_AND_SEND_OPS: u32 = 1 | 1 << 6;
    /// `IBV_QP_EX_WITH_` RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD
    pub(in crate::rdma) const SEND_OPS: u64 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6;
    /// `MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS`
    pub(in crate::rdma) const MLX5_SEND_OPS_FLAGS: u64 = 1 << 2;
    /// `MLX5DV_QP_EX_WITH_RAW_WQE`
    pub(in crate::rdma) const MLX5_RAW_WQE: u64 = 1 << 3;
    /// `IBV_WR_RDMA_WRITE`
    pub(in crate::rdma) const WR_WRITE: u32 = 0;
    /// `IBV_WR_RDMA_WRITE_WITH_IMM`
    pub(in crate::rdma) const WR_WRITE_IMM: u32 = 1;
    /// `IBV_WR_RDMA_READ`
    pub(in crate::rdma) const WR_READ: u32 = 4;
    /// `IBV_WR_ATOMIC_CMP_AND_SWP`
    pub(in crate::rdma) const WR_CAS: u32 = 5;
    /// `IBV_WR_ATOMIC_FETCH_AND_ADD`
    pub(in crate::rdma) const WR_FAA: u32 = 6;
    /// `IBV_SEND_FENCE`
    pub(in crate::rdma) const FENCE: u32 = 1;
    /// `IBV_SEND_SIGNALED`
    pub(in crate::rdma) const SIGNALED: u32 = 2;
    /// `IBV_SEND_INLINE`
    pub(in crate::rdma) const INLINE: u32 = 8;
    /// `IBV_WC_RECV_RDMA_WITH_IMM`
    pub(in crate::rdma) const WC_RECV_IMM: u32 = 1 << 7 | 1;
    /// `IBV_PORT_ACTIVE`
    pub(in crate::rdma) const PORT_ACTIVE: u32 = 4;
    /// `IBV_LINK_LAYER_ETHERNET`
    pub(in crate::rdma) const ETHERNET: u8 = 2;
}

const _: () = assert!(size_of::<ContextOps>() == 256 && size_of::<Context>() == 288 + size_of::<Mutex>());
const _: () = assert!(size_of::<VerbsContext>() == 320 + size_of::<Context>());
const _: () = assert!(size_of::<DeviceAttr>() == 232 && size_of::<DeviceAttrEx>() == 400);
const _: () = assert!(size_of::<PortAttr>() == 52 && size_of::<GidEntry>() == 32);
const LOCKS_BYTES: usize = size_of::<Mutex>() + size_of::<Condition>();
const _: () = assert!(size_of::<Cq>() == 40 + LOCKS_BYTES && size_of::<Mr>() == 48 && size_of::<Dm>() == 32);
const _: () = assert!(size_of::<Qp>() == 72 + LOCKS_BYTES && size_of::<QpEx>() == 184 + size_of::<Qp>());
const _: () = assert!(size_of::<Mlx5QpEx>() == 104 && size_of::<Mlx5QpInitAttr>() == 40);
const _: () = assert!(size_of::<QpInitAttr>() == 64 && size_of::<QpInitAttrEx>() == 136);
const _: () = assert!(size_of::<AhAttr>() == 32 && size_of::<QpAttr>() == 144);
const _: () = assert!(size_of::<SendWr>() == 128 && size_of::<RecvWr>() == 32 && size_of::<Sge>() == 16);
const _: () = assert!(size_of::<Wc>() == 48 && size_of::<SrqInitAttr>() == 24);
const _: () = assert!(size_of::<AllocDmAttr>() == 16 && size_of::<CompChannel>() == 16);
