/* SPDX-License-Identifier: Apache-2.0
 * decode.c: image.decode. The head of the file decides the shape of the output,
 * and the pixels are decoded into its memory.
 */
#include "codec.h"
#include "decode.gen.h"

/* Decodes an opened file into the output. */
static int32_t read_image(const tn_frame *call, image_scratch *scratch,
                          const image_head *head) {
  const image_decode_params *p = image_decode_params_of(call);
  const int64_t channels = p->channels != 0 ? p->channels : head->channels;
  const int64_t shape[] = {head->height, head->width, channels};
  const image_part part = {.height = head->height,
                           .width = head->width,
                           .channels = (int32_t)channels,
                           .reduce = 1};
  const int32_t code = call->host->set_shape(call, TN_OPERAND_OUT, 0, 3, shape);
  if (code != TN_OK) {
    image_close_file(scratch, head);
    return code;
  }
  const int32_t read =
      image_read_part(scratch, head, &part, (uint8_t *)call->out[0].data,
                      head->width * channels);
  return read == TN_OK ? TN_OK
                       : TN_FAIL(call, read, "`bytes` cannot be decoded: %s",
                                 scratch->why);
}

int32_t image_decode(const tn_frame *call) {
  const image_decode_params *p = image_decode_params_of(call);
  const tn_tensor *bytes = &call->in[IMAGE_DECODE_IN_BYTES];
  image_instance *self = (image_instance *)call->instance;
  image_scratch *scratch = image_borrow_scratch(self);
  if (!scratch)
    return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for a decoder");
  const image_file file = {.bytes = (const uint8_t *)bytes->data,
                           .size = tn_tensor_size(bytes),
                           .max_pixels = p->max_pixels};
  image_head head;
  int32_t code = image_open_file(self, scratch, &file, &head);
  if (code == TN_OK)
    code = read_image(call, scratch, &head);
  else
    code = TN_FAIL(call, code, "`bytes` cannot be decoded: %s", scratch->why);
  image_return_scratch(self, scratch);
  return code;
}
