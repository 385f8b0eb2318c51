/* SPDX-License-Identifier: Apache-2.0
 * binding.h: the contents of `binding:` as data: the library function of an
 * operator and the value of each argument. The reader of manifests checks a
 * binding and the registry calls the function.
 *
 * A binding is not part of the tables of op.h: those describe compiled plugins
 * to other builds of the host, and a binding never leaves the process that read
 * it.
 */
#ifndef TENON_MANIFEST_BINDING_H_
#define TENON_MANIFEST_BINDING_H_

#include "manifest.h"

/* Most arguments and libraries of one binding. */
enum { TNM_MAX_ARGS = 32, TNM_MAX_LIBRARIES = 8 };

/* Types in C, in the order of their names in a manifest. */
enum {
  TNM_C_I8 = 0,
  TNM_C_I16,
  TNM_C_I32,
  TNM_C_I64,
  TNM_C_U8,
  TNM_C_U16,
  TNM_C_U32,
  TNM_C_U64,
  TNM_C_F32,
  TNM_C_F64,
  TNM_C_TYPES,              /* their number */
  TNM_C_CHAR = TNM_C_TYPES, /* only as `const char *`: text */
  TNM_C_POINTER,            /* pointer to one of them */
  TNM_C_VOID
};

/* "int8" ... "double", "char". */
extern const char *const tnm_c_names[TNM_C_TYPES + 2];

/* Least and greatest value of an integer type; the range of uint64 ends where
 * that of int64_t does. */
typedef struct tnm_range {
  int64_t low;
  int64_t high;
} tnm_range;
tnm_range tnm_c_range(uint32_t c);

enum {                     /* tnm_bound_arg.pass */
       TNM_PASS_TENSOR,    /* address of operand `index` of `list`; NULL if it
                              is absent */
       TNM_PASS_INTEGER,   /* `integer` */
       TNM_PASS_NUMBER,    /* `number` */
       TNM_PASS_FLOAT,     /* float parameter `index` */
       TNM_PASS_LIST,      /* address of the values of list parameter `index` */
       TNM_PASS_TEXT,      /* text parameter `index`; NULL if it is None */
       TNM_PASS_DIMENSION, /* dimension `axis` of operand `index` of `list`; a
                              negative axis counts from the end */
       TNM_PASS_SIZE,      /* number of elements of operand `index` of `list`, 0
                              if it is absent */
       TNM_PASS_NODE,      /* value of node `index` */
       TNM_PASS_NODES,     /* address of the values of node `index`, a list, as
                              numbers of type `element`; NULL if it is the
                              shape of an absent operand */
       TNM_PASS_ELEMENT,   /* one element of operand `index` of `list` */
       TNM_PASS_CONSTANT   /* address of `constant` */
};

/* One argument of the function. */
typedef struct tnm_bound_arg {
  uint32_t c;       /* TNM_C_* */
  uint32_t element; /* element type of a pointer */
  uint32_t pass;
  uint32_t list; /* TN_OPERAND_* */
  uint32_t index;
  int32_t axis;
  int64_t integer;
  double number;
  const char *constant; /* a fixed text */
  bool by_address;      /* of a number: pass its address, as `const element*` */
  bool each;        /* of an operand: pass the element of this call of a map */
  const char *text; /* `pass` or `text` as written */
} tnm_bound_arg;

enum {                      /* tnm_binding.result */
       TNM_RESULT_NONE = 0, /* void, or ignored */
       TNM_RESULT_STATUS,   /* any value but `ok` is a failure */
       TNM_RESULT_OUTPUT    /* the only element of output `output` */
};

/* The function of one operator. Everything is constant and lives as long as the
 * tnm_plugin that owns it. */
typedef struct tnm_binding {
  const char *const *libraries; /* in order: the first that loads is used */
  uint32_t n_libraries;
  const char *symbol;
  uint32_t returns; /* TNM_C_* */
  uint32_t result;
  int64_t ok;
  uint32_t output;
  uint32_t map; /* input with a call for each element; TN_NONE: one call */
  uint32_t n_args;
  const tnm_bound_arg *args;
  const tn_node *nodes; /* for TNM_PASS_NODE; `dims` gives values to the
                           operator's dimension variables */
  uint32_t n_nodes;
  const tnm_bound_arg *dims; /* one TNM_PASS_DIMENSION per variable of the
                                operator; list TN_NONE if unused */
  const tn_kernel *kernel;   /* compute is NULL; flags say whether calls may
                                overlap */
  tnm_pos pos;
} tnm_binding;

#endif /* TENON_MANIFEST_BINDING_H_ */
