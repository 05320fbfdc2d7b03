/*
 * Keys and certificates, made by a process that does this one thing: what goes in comes on stdin,
 * what comes out is on stdout, and no key is in a file or an argument. A request of a stranger is
 * believed in its public key alone; the name is the one that was asked for.
 */
#include "base/confine.h"
#include "cluster/worker/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#define DAY_SEC        86400L
#define AUTHORITY_DAYS 7300L
#define NODE_DAYS      3650L
#define BACK_SEC       3600L /* clocks of nodes may differ */
#define SERIAL_BITS    127

static int certificates_fail(const char *what)
{
    char words[LINK_WORDS];
    tls_words(what, words);
    return program_leave(words);
}

static BIO *certificates_input(struct kg_buf *text)
{
    kg_confine(077, 0, 16);
    if (program_read(text) < 0)
        return NULL;
    return BIO_new_mem_buf(text->data, (int)text->length);
}

/* -- a certificate ----------------------------------------------------------------------------- */

static bool certificate_extend(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    bool done = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return done;
}

static bool certificate_number(X509 *certificate)
{
    BIGNUM *number = BN_new();
    bool done = number != NULL && BN_rand(number, SERIAL_BITS, 0, 0) == 1 &&
                BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return done;
}

static bool certificate_name(X509_NAME *name, const char *text)
{
    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text, -1,
                                      -1, 0) == 1;
}

/* issuer NULL: it is its own. */
static X509 *certificate_make(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *signer)
{
    X509 *made = X509_new();
    bool is_authority = issuer == NULL;
    long days = is_authority ? AUTHORITY_DAYS : NODE_DAYS;
    bool done = made != NULL && X509_set_version(made, X509_VERSION_3) == 1 &&
                certificate_number(made) && X509_gmtime_adj(X509_getm_notBefore(made), -BACK_SEC) &&
                X509_gmtime_adj(X509_getm_notAfter(made), days * DAY_SEC) &&
                certificate_name(X509_get_subject_name(made), name) &&
                X509_set_issuer_name(made, X509_get_subject_name(is_authority ? made : issuer)) &&
                X509_set_pubkey(made, key) == 1;
    X509 *by = is_authority ? made : issuer;
    done =
        done &&
        certificate_extend(made, by, NID_basic_constraints,
                           is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
        certificate_extend(made, by, NID_key_usage,
                           is_authority ? "critical,keyCertSign" : "critical,digitalSignature") &&
        (is_authority || certificate_extend(made, by, NID_ext_key_usage, "serverAuth,clientAuth"));
    if (done && X509_sign(made, signer, NULL) > 0)
        return made;
    X509_free(made);
    return NULL;
}

/* -- the acts ---------------------------------------------------------------------------------- */

static EVP_PKEY *certificates_key(void)
{
    kg_confine(077, 0, 16);
    return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
}

static int certificates_put(BIO *out, bool done, const char *what)
{
    done = done && BIO_flush(out) == 1;
    BIO_free(out);
    return done ? 0 : certificates_fail(what);
}

int authority_main(const char *name)
{
    EVP_PKEY *key = certificates_key();
    X509 *made = key != NULL ? certificate_make(name, key, NULL, key) : NULL;
    BIO *out = BIO_new_fd(STDOUT_FILENO, BIO_NOCLOSE);
    bool done = made != NULL && PEM_write_bio_X509(out, made) == 1 &&
                PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1;
    X509_free(made);
    EVP_PKEY_free(key);
    return certificates_put(out, done, "make an authority");
}

int request_main(const char *node)
{
    EVP_PKEY *key = certificates_key();
    X509_REQ *made = X509_REQ_new();
    BIO *out = BIO_new_fd(STDOUT_FILENO, BIO_NOCLOSE);
    bool done = key != NULL && certificate_name(X509_REQ_get_subject_name(made), node) &&
                X509_REQ_set_pubkey(made, key) == 1 && X509_REQ_sign(made, key, NULL) > 0 &&
                PEM_write_bio_X509_REQ(out, made) == 1 &&
                PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1;
    X509_REQ_free(made);
    EVP_PKEY_free(key);
    return certificates_put(out, done, "make a request");
}

/* Who asks has to have the key that goes with it. */
static bool request_is_signed(X509_REQ *request)
{
    EVP_PKEY *key = request != NULL ? X509_REQ_get0_pubkey(request) : NULL;
    return key != NULL && EVP_PKEY_is_a(key, "ED25519") && X509_REQ_verify(request, key) == 1;
}

int certificate_main(const char *node)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    BIO *in = certificates_input(&text), *out = BIO_new_fd(STDOUT_FILENO, BIO_NOCLOSE);
    X509 *authority = in != NULL ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    EVP_PKEY *signer = authority != NULL ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
    X509_REQ *request = signer != NULL ? PEM_read_bio_X509_REQ(in, NULL, NULL, NULL) : NULL;
    X509 *made = request_is_signed(request)
                     ? certificate_make(node, X509_REQ_get0_pubkey(request), authority, signer)
                     : NULL;
    bool done = made != NULL && PEM_write_bio_X509(out, made) == 1;
    X509_free(made);
    X509_REQ_free(request);
    EVP_PKEY_free(signer);
    X509_free(authority);
    BIO_free(in);
    explicit_bzero(text.data, text.length);
    return certificates_put(out, done, "sign a certificate");
}

/* {"node","days","fingerprint"}: of the first certificate that comes. */
int expiry_main(void)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    BIO *in = certificates_input(&text);
    X509 *certificate = in != NULL ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    int days = 0, seconds = 0;
    bool done = certificate != NULL &&
                ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) == 1 &&
                X509_digest(certificate, EVP_sha256(), hash, &length) == 1;
    if (done) {
        printf("{\"days\":%d,\"expired\":%s,\"fingerprint\":\"", days,
               days < 0 || seconds < 0 ? "true" : "false");
        for (unsigned i = 0; i < length; i++)
            printf("%02x", hash[i]);
        printf("\"}\n");
    }
    X509_free(certificate);
    BIO_free(in);
    return done && fflush(stdout) == 0 ? 0 : certificates_fail("read a certificate");
}
