/* SPDX-License-Identifier: Apache-2.0
 * plugin/operator.h: the tables that describe an operator: parameters, operands
 * with shapes and types, and gradients. They have no code but an optional
 * `infer`. A part of op.h, which has the rules.
 */
#ifndef TENON_PLUGIN_OPERATOR_H_
#define TENON_PLUGIN_OPERATOR_H_

#include "tenon/plugin/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------- parameters */

/* Lists inside a generated params struct. The host owns the memory. */
typedef struct tn_ints {
  const int64_t *v;
  int64_t n;
} tn_ints;
typedef struct tn_floats {
  const double *v;
  int64_t n;
} tn_floats;

enum { /* tn_field.type, and the C type in the generated struct */
       TN_FIELD_BOOL = 1,   /* int32_t, 0 or 1 */
       TN_FIELD_INT = 2,    /* int64_t */
       TN_FIELD_FLOAT = 3,  /* double */
       TN_FIELD_STRING = 4, /* const char * */
       TN_FIELD_ENUM = 5,   /* int32_t, index into values */
       TN_FIELD_INTS = 6,   /* tn_ints */
       TN_FIELD_FLOATS = 7, /* tn_floats */
       TN_FIELD_DTYPE = 8   /* tn_dtype */
};

enum {                              /* tn_field.flags */
       TN_FIELD_REQUIRED = 1u << 0, /* has no default */
       TN_FIELD_OPTIONAL = 1u << 1, /* may be None; see has_offset */
       TN_FIELD_DYNAMIC = 1u << 2,  /* may change while a call is prepared */
       TN_FIELD_HAS_MIN = 1u << 3,
       TN_FIELD_HAS_MAX = 1u << 4
};

#if TN_TARGET_MINOR >= 2
/* Further tn_field.flags. The bound itself is not allowed, of float and floats:
 * beside TN_FIELD_HAS_MIN and TN_FIELD_HAS_MAX. NONZERO: neither 0 nor -0; of
 * int and ints, too. */
#define TN_FIELD_ABOVE 32u
#define TN_FIELD_BELOW 64u
#define TN_FIELD_NONZERO 128u
#endif

#define TN_NONE 0xffffffffu /* "no such index, offset or limit" */

/* One parameter: how text becomes a member of the params struct and back. */
typedef struct tn_field {
  uint32_t struct_size;
  uint32_t type;             /* TN_FIELD_BOOL ... */
  uint32_t flags;            /* TN_FIELD_REQUIRED ... */
  uint32_t offset;           /* of the member */
  uint32_t has_offset;       /* of an int32_t that is 1 when the value is not
                                None; TN_NONE unless TN_FIELD_OPTIONAL */
  uint32_t since;            /* plugin release that introduced it */
  uint32_t deprecated_since; /* 0: it is not deprecated */
  uint32_t rank_of;  /* index of the field that determines the length of this
                        list; a single value is repeated to it. TN_NONE: any */
  uint32_t min_rank; /* least and greatest length of a list */
  uint32_t max_rank; /* TN_NONE: no limit */
  uint32_t n_values; /* names of an enum; allowed types of a dtype, by name
                        (0: all types except storage types) */
  uint32_t reserved;
  int64_t min_int; /* inclusive bounds of int and ints ... */
  int64_t max_int;
  double min_float; /* ... and bounds of float and floats, if the flags say so;
                       inclusive without TN_FIELD_ABOVE and TN_FIELD_BELOW */
  double max_float;
  const char *name;
  const char *default_text; /* parsed as a user's text is; NULL if required;
                               "None" if optional without a value */
  const char *doc;
  const char *alias; /* second accepted name, or NULL */
  const char *use;   /* replacement of a deprecated parameter */
  const char *const *values;
} tn_field;

/* ------------------------------------------------- shape and type programs */

/* Rules about shapes are expressions over integers. Their nodes are in one
 * array per operator; operands of a node are indices of earlier nodes. A value
 * is one integer or, for packs and list parameters, a list; arithmetic between
 * lists of equal length works per element, and a single integer is repeated.
 * Division rounds towards minus infinity. Comparisons give 1 or 0. */
enum {                    /* tn_node.op */
       TN_NODE_CONST = 1, /* value */
       TN_NODE_DIM = 2,   /* dimension variable a */
       TN_NODE_PACK = 3,  /* pack variable a: a list */
       TN_NODE_PARAM = 4, /* parameter a: int, bool, enum index, or list */
       TN_NODE_RANK = 5,  /* rank of the value of node a (length of a list) */
       TN_NODE_OPERAND_RANK = 6, /* rank of operand b of list a */
       TN_NODE_OPERAND_SIZE = 7, /* number of elements of operand b of list a */
       TN_NODE_OPERAND_SHAPE = 8, /* shape of operand b of list a: a list */
       TN_NODE_HAS = 9,           /* 1 if optional input a is present */
       TN_NODE_NEG = 16,          /* -a */
       TN_NODE_ADD = 17,
       TN_NODE_SUB = 18,
       TN_NODE_MUL = 19,
       TN_NODE_DIV = 20, /* floor(a / b) */
       TN_NODE_MOD = 21, /* sign of b */
       TN_NODE_POW = 22,
       TN_NODE_MIN = 23,
       TN_NODE_MAX = 24,
       TN_NODE_ABS = 25,
       TN_NODE_EQ = 32,
       TN_NODE_NE = 33,
       TN_NODE_LT = 34,
       TN_NODE_LE = 35,
       TN_NODE_GT = 36,
       TN_NODE_GE = 37,
       TN_NODE_SELECT = 38 /* a != 0 ? b : c */
};

#if TN_TARGET_MINOR >= 2
/* tn_node.op: 1 if parameter a, a float or int, compares with parameter b, or
 * with the double that `value` has the bits of if b is -1; c is TN_NODE_EQ to
 * TN_NODE_GE. A parameter that is None counts as 0. */
#define TN_NODE_COMPARE_PARAMS 39
#endif
typedef struct tn_node { /* frozen */
  uint32_t op;
  int32_t a;
  int32_t b;
  int32_t c;
  int64_t value;
} tn_node;

/* One entry of a shape pattern: a node, one dimension wide, or spread over as
 * many dimensions as its list has. */
typedef struct tn_term { /* frozen */
  int32_t node;
  uint32_t spread; /* 0 or 1 */
} tn_term;

enum {                         /* tn_arg.shape_kind */
       TN_SHAPE_ANY = 0,       /* no rule */
       TN_SHAPE_PATTERN = 1,   /* terms */
       TN_SHAPE_SAME = 2,      /* as operand shape_index of list shape_list */
       TN_SHAPE_BROADCAST = 3, /* of all inputs that are not */
       TN_SHAPE_HOOK = 4       /* tn_op.infer decides */
};

enum {                              /* tn_arg.flags */
       TN_ARG_OPTIONAL = 1u << 0,   /* an input that may be absent */
       TN_ARG_VARIADIC = 1u << 1,   /* the last input; any number of them */
       TN_ARG_HIDDEN = 1u << 2,     /* an output that users do not see */
       TN_ARG_CONTIGUOUS = 1u << 3, /* passed dense, row-major */
       TN_ARG_DYNAMIC = 1u << 4     /* its shape is decided by compute */
};

enum { TN_ROLE_DATA = 0, TN_ROLE_WEIGHT = 1, TN_ROLE_LABEL = 2 }; /* role */
#if TN_TARGET_MINOR >= 2
/* role of an output: a loss. If it is a head of a graph and the caller passes
 * no gradient for it, that gradient is ones. */
#define TN_ROLE_LOSS 3u
#endif
/* One input, output or auxiliary state of an operator. */
typedef struct tn_arg {
  uint32_t struct_size;
  uint32_t flags; /* TN_ARG_* */
  uint32_t role;  /* TN_ROLE_* */
  uint32_t since;
  uint32_t deprecated_since;
  uint32_t dtype_var;   /* index into tn_op.dtype_vars, or TN_NONE */
  tn_dtype dtype;       /* if dtype_var and dtype_param are TN_NONE */
  uint32_t dtype_param; /* of the dtype parameter that decides, or TN_NONE */
  uint32_t shape_kind;  /* TN_SHAPE_* */
  uint32_t shape_list;  /* TN_OPERAND_*, for TN_SHAPE_SAME */
  uint32_t shape_index;
  uint32_t n_terms;
  uint32_t inplace; /* output: input whose memory it may use, or TN_NONE; of
                       several the first: see tn_kernel.inplace */
  uint32_t init;    /* output: like input that it copies first, or TN_NONE */
  uint32_t count;   /* output: node whose value is their number; TN_NONE: 1 */
  uint32_t reserved;
  const tn_term *terms;
  const char *name;
  const char *doc;
  const char *shape_text; /* as written in the manifest; for people */
  const char *formula;    /* output: forward expression, or NULL */
  const char *initial;    /* aux: initial value ("0", "1"), or NULL */
  const char *use;        /* replacement of a deprecated operand */
} tn_arg;

/* A type variable and its possible types. */
typedef struct tn_dtype_var {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t allowed; /* TN_BIT_* */
  const char *name;
} tn_dtype_var;

/* A condition checked once all shapes are known, before any kernel. */
typedef struct tn_require {
  uint32_t struct_size;
  uint32_t node;
  const char *that; /* the condition as written */
  const char *say;  /* message for the user when it is false */
} tn_require;

/* --------------------------------------------------------------- gradients */

enum {                         /* tn_gradient.kind */
       TN_GRADIENT_NONE = 0,   /* not differentiable; see `why` */
       TN_GRADIENT_KERNEL = 1, /* backward kernels, written or generated */
       TN_GRADIENT_GRAPH = 2   /* calls of other operators */
};

enum {                       /* tn_need.what, tn_step.what */
       TN_NEED_GRAD_OUT = 0, /* gradient of output index */
       TN_NEED_IN = 1,       /* value of input index */
       TN_NEED_OUT = 2       /* value of output index */
};

typedef struct tn_need { /* frozen */
  uint32_t what;
  uint32_t index;
  uint32_t metadata; /* 1: dtype and shape suffice */
  uint32_t reserved;
} tn_need;

#if TN_TARGET_MINOR >= 1
#define TN_ARG_TRAINED 32u /* tn_arg.flags: only TN_CALL_TRAIN changes it */
#define TN_ARG_VIEW 64u    /* an output: the elements of `inplace`, in order */
#define TN_STEP_CALL 3u    /* tn_step.what, beside TN_NEED_* */
/* A graph in postfix order: a value is pushed on a stack, a call replaces its
 * inputs on the stack by its first output. One value remains. */
typedef struct tn_step { /* frozen */
  uint32_t what;
  uint32_t index;     /* of the operand; of a call: number of its inputs */
  const char *op;     /* call: "elemwise.mul_scalar@1", otherwise NULL */
  const char *params; /* call: "scalar=$alpha axis=1", $alpha is the value of
                         this operator's parameter; NULL: none */
} tn_step;
#endif

/* How one input gets its gradient. */
typedef struct tn_input_gradient {
  uint32_t struct_size;
  uint32_t stop; /* 1: never differentiated */
  uint32_t n_needs;
  uint32_t inplace; /* position in a backward call's `in` whose memory the
                       gradient may use, or TN_NONE; of several the first */
  const tn_need *needs;
  const char *formula; /* as written, or NULL */
#if TN_TARGET_MINOR >= 1
  uint32_t n_steps; /* TN_GRADIENT_GRAPH; 0 if stopped. Since 0.1 */
  uint32_t linear;  /* bit g: in group g, in which outputs are linear */
  const tn_step *steps;
#endif
} tn_input_gradient;

typedef struct tn_gradient {
  uint32_t struct_size;
  uint32_t kind; /* TN_GRADIENT_* */
  uint32_t n_inputs;
  uint32_t reserved;
  const tn_input_gradient *const *inputs; /* one per input */
  const char *why; /* kind NONE: the reason, part of the error text */
} tn_gradient;

/* --------------------------------------------------------------- operators */

enum { TN_OP_BACKWARD_ONLY = 1u << 0 }; /* tn_op.flags: not for users */

/* The description of an operator. Constant; one per operator of a plugin. */
typedef struct tn_op {
  uint32_t struct_size;
  uint32_t flags;     /* TN_OP_* */
  uint32_t interface; /* release of the operator's own interface, from 1 */
  uint32_t since;     /* plugin release that introduced it */
  uint32_t deprecated_since;
  uint32_t params_size; /* sizeof of the generated params struct; 0: none */
  uint32_t n_params;
  uint32_t n_dtype_vars;
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t n_aux;
  uint32_t n_dims;  /* dimension variables */
  uint32_t n_packs; /* pack variables */
  uint32_t n_nodes;
  uint32_t n_requires;
  uint32_t reserved;
  const char *name; /* without the plugin's: "quadratic" */
  const char *summary;
  const char *doc;      /* Markdown, or NULL */
  const char *replaces; /* "other.op" that this one replaces, or NULL */
  const char *use;      /* replacement of a deprecated operator */
  const tn_field *const *params;
  const tn_dtype_var *const *dtype_vars;
  const tn_arg *const *inputs;
  const tn_arg *const *outputs;
  const tn_arg *const *aux;
  const char *const *dims;  /* names, "N" */
  const char *const *packs; /* names, "S" */
  const tn_node *nodes;
  const tn_require *const *requirements;
  const tn_gradient *gradient;

  /* For TN_SHAPE_HOOK, otherwise NULL. Reads the (partial) shapes of `call` and
   * reports only the shapes that follow from them, through host->set_shape;
   * other nodes of a graph may determine the rest. Called again until nothing
   * changes. If shapes are still unknown, it is called with TN_CALL_DEFAULTS in
   * flags: it may then choose the usual one of several possible shapes. TN_OK,
   * or a code with TN_FAIL. [any] */
  int32_t (*infer)(const tn_frame *call);

#if TN_TARGET_MINOR >= 2
  /* Group of related operators, for lists and manuals: "linear algebra"; NULL:
   * none. Since 0.2. */
  const char *family;
#endif
} tn_op;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_OPERATOR_H_ */
