/* SPDX-License-Identifier: Apache-2.0
 * A library without the functions of libjpeg-turbo and libpng, in their place:
 * plugins/image opens it, and has to name a missing function.
 */
const int tenon_fake_image_library = 1;
